"""The ids and logprobs of one choice, out of all the places where its engine may put them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from msgspec import Raw

from adapters.openai_shape import Shape
from adapters.places import BadValue, Logprobs, Place, Source
from adapters.raw import told
from adapters.tables import Columns, Read
from adapters.token_ids import TokenIds


@dataclass(frozen=True, slots=True)
class TokensRead:
    """The ids and logprobs of one choice, with where the ids stood and why there are no logprobs."""

    token_ids: TokenIds | None = None
    source: str | None = None
    logprobs: Logprobs | None = None
    logprobs_reason: str | None = None


class ChoiceTokens:
    """One reading of one choice. What is odd in it is left out, and stands in `anomalies`."""

    def __init__(
        self,
        shape: Shape,
        root: Mapping[str, Raw],
        choice: Mapping[str, Raw],
        index: int,
        read: Mapping[str, Read],
    ) -> None:
        """`choice`: all that was said of it, wherever it stood; `read`: members that were read before."""
        self.anomalies: list[str] = []
        self._shape = shape
        self._root = root
        self._choice = choice
        self._index = index
        self._holders: dict[tuple[bool, tuple[str, ...]], Mapping[str, Raw] | None] = {}
        self._read_before = read
        self._columns: dict[str, Columns | None] = {}

    def read(self, echoed: int = 0) -> TokensRead:
        """The ids of the first source that has any, and the logprobs of the first source that has the same ids.

        `echoed`: how many of the first logprobs are the prompt's, where the caller asked to have it echoed.
        """
        chosen: TokenIds | None = None
        source: str | None = None
        agreeing: list[Source] = []
        foreign: dict[tuple[str, ...], str] = {}
        for candidate in self._shape.sources:
            place = candidate.token_ids
            try:
                ids = self._token_ids(place)
            except BadValue as exc:
                if place.of_logprobs and chosen is not None:
                    foreign[place.path] = self._said(str(exc))
                else:
                    self.anomalies.append(self._said(str(exc)))
                continue
            if ids is None:
                continue
            if chosen is None:
                chosen, source = ids, str(place)
            if ids == chosen:
                agreeing.append(candidate)
                continue
            differ = self._said(f"{source} and {place} differ ({len(chosen)} ids and {len(ids)})")
            if place.of_logprobs:
                # Logprobs of other tokens; the ids that were told outright are none the worse for it.
                foreign[place.path] = differ
            else:
                self.anomalies.append(differ)
        if chosen is None:
            return TokensRead()
        logprobs, reason = self._logprobs(agreeing, foreign, chosen, echoed)
        return TokensRead(chosen, source, logprobs, reason)

    def _logprobs(
        self, sources: Iterable[Source], foreign: Mapping[tuple[str, ...], str], ids: TokenIds, echoed: int
    ) -> tuple[Logprobs | None, str | None]:
        """The first list of as many logprobs as ids, of entries that do not name others; or why there is none."""
        reason: str | None = None
        for place in chain.from_iterable(source.logprobs for source in sources):
            if place.path in foreign:
                reason = reason or foreign[place.path]
                continue
            logprobs, why = self._logprobs_at(place, ids, echoed)
            if logprobs is not None:
                return logprobs, None
            reason = reason or why
        return None, reason

    def _logprobs_at(self, place: Place, ids: TokenIds, echoed: int) -> tuple[Logprobs | None, str | None]:
        try:
            cells = self._cells(place)
            logprobs = None if cells is None else place.logprobs_of(cells)
        except BadValue as exc:
            return None, self._said(str(exc))
        if logprobs is None:
            return None, None
        if len(logprobs) == len(ids) + echoed:
            logprobs = logprobs[echoed:]
        if len(logprobs) != len(ids):
            return None, f"choice {self._index} has {len(logprobs)} logprobs for {len(ids)} token ids"
        return logprobs, None

    def _token_ids(self, place: Place) -> TokenIds | None:
        """What a place tells. Raises BadValue."""
        if place.of_logprobs:
            cells = self._cells(place)
            return None if cells is None else place.token_ids_of(cells)
        raw = self._find(place)
        return None if raw is None else place.token_ids(raw)

    def _cells(self, place: Place) -> list[Any] | None:
        """The values at a place, one of each item of a list; None where none were told. Raises BadValue."""
        columns = self._columns_of(place.path[0]) if place.at == "choice" else None
        if columns is not None:
            return columns.get((place.path[-1], place.column))
        raw = self._find(place)
        return None if raw is None else place.cells(raw)

    def _columns_of(self, member: str) -> Columns | None:
        """All that is wanted of a member of the choice, decoded once; None where each place is read by itself."""
        table = self._shape.tables.get(member)
        if table is None:
            return None
        if member not in self._columns:
            raw = self._choice.get(member)
            before = self._read_before.get(member)
            if before is not None and before[0] is raw:
                self._columns[member] = before[1]
            else:
                self._columns[member] = table.read(raw) if told(raw) else {}
        return self._columns[member]

    def _find(self, place: Place) -> Raw | None:
        """What stands at a place. Several places are in one large object, which is opened once. Raises BadValue."""
        in_root = place.at == "root"
        key = in_root, place.path[:-1]
        if key not in self._holders:
            self._holders[key] = place.holder(self._root if in_root else self._choice)
        holder = self._holders[key]
        return None if holder is None else place.within(holder, self._index)

    def _said(self, reason: str) -> str:
        return f"choice {self._index}: {reason}"
