"""Where an engine puts ids and logprobs: places as data, and how what stands there is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from adapters.prompts import ReadIds
from adapters.raw import NotJSON, decode, open_array, open_object, told
from adapters.token_ids import TokenIds

Logprobs = tuple[float | None, ...]

_TOKEN_ID_TEXT: Final = "token_id:"  # noqa: S105
_SENTINEL: Final = -9999.0
"""What vLLM writes for «no value» and for values too low to print."""


class BadValue(ValueError):
    """Something stands in the place, but it is not what belongs there."""


@dataclass(frozen=True, slots=True)
class Place:
    """A list in an answer. `Place("choice", "logprobs", "content", column="logprob")` is
    `choices[].logprobs.content[].logprob`."""

    at: Literal["root", "choice", "beside"]
    """`beside`: of one choice, but said in the root of its chunk."""
    path: tuple[str, ...]
    column: str | int | None = None
    """Where in each item of the list the value stands; null when the item is the value."""
    texts: bool = False
    """The values are texts that name ids, `token_id:N` (vLLM's `return_tokens_as_token_ids`); other texts tell none."""
    by_choice: bool = False
    """The place holds a list of such lists, by choice index."""

    @property
    def of_logprobs(self) -> bool:
        """Whether these ids only name what the entries of a list of logprobs are of."""
        return self.column is not None or self.texts

    @property
    def clue(self) -> bytes | None:
        """What stands in the JSON text of each list that has values here; null where nothing is sure to.

        Such a word is looked for once for `token_id` and for `token_id:N`.
        """
        if self.texts:
            return _TOKEN_ID_TEXT.rstrip(":").encode()
        return self.column.encode() if isinstance(self.column, str) else None

    def __str__(self) -> str:
        path = ".".join(self.path) + ("[]" if self.by_choice else "")
        column = (
            "" if self.column is None else f"[][{self.column}]" if isinstance(self.column, int) else f"[].{self.column}"
        )
        return ("choices[]." if self.at == "choice" else "") + path + column

    def find(self, root: Mapping[str, Raw], choice: Mapping[str, Raw], index: int) -> Raw | None:
        """The list's JSON text, or None where nothing was told. Raises BadValue."""
        holder = self.holder(root if self.at == "root" else choice)
        return None if holder is None else self.within(holder, index)

    def holder(self, fields: Mapping[str, Raw]) -> Mapping[str, Raw] | None:
        """The object that the list stands in, of the root or of a choice; None where there is none. Raises BadValue."""
        try:
            for name in self.path[:-1]:
                raw = fields.get(name)
                if not told(raw):
                    return None
                fields = open_object(raw)
            return fields
        except NotJSON as exc:
            raise BadValue(f"{self} is not what belongs there: {exc}") from exc

    def within(self, holder: Mapping[str, Raw], index: int) -> Raw | None:
        """The list's JSON text in the object that it stands in. Raises BadValue."""
        raw = holder.get(self.path[-1])
        if not told(raw) or not self.by_choice:
            return raw if told(raw) else None
        try:
            lists = open_array(raw)
        except NotJSON as exc:
            raise BadValue(f"{self} is not what belongs there: {exc}") from exc
        return lists[index] if index < len(lists) and told(lists[index]) else None

    def count(self, root: Mapping[str, Raw]) -> int:
        """How many lists stand here, for a place by choice; 0 for what cannot be read."""
        fields = root
        try:
            for name in self.path[:-1]:
                fields = open_object(fields[name])
            return len(open_array(fields[self.path[-1]]))
        except (KeyError, NotJSON):
            return 0

    def cells(self, raw: Raw) -> list[Any] | None:
        """The values in what `find` found, or None where no item has any: lists of one name differ so between engines.
        Raises BadValue."""
        text = bytes(raw)
        if self.clue is not None and self.clue not in text:  # A search is cheaper than a parse.
            return [] if text.strip(b"[] ") == b"" else None
        try:
            return self._cells(raw)
        except ValueError as exc:
            raise self._bad(exc) from exc

    def token_ids(self, raw: Raw, read: ReadIds = TokenIds.from_json) -> TokenIds:
        """The ids of what `find` found, where they stand as such. Raises BadValue."""
        try:
            return read(raw)
        except ValueError as exc:
            raise self._bad(exc) from exc

    def token_ids_of(self, cells: list[Any]) -> TokenIds | None:
        """The ids that these values are or name. Raises BadValue."""
        try:
            if not cells:
                return None
            return _ids_of_texts(cells) if self.texts else TokenIds(cells)
        except ValueError as exc:
            raise self._bad(exc) from exc

    def logprobs_of(self, cells: list[Any]) -> Logprobs:
        """The logprobs that these values are, sentinels as null. Raises BadValue."""
        try:
            return _logprobs(cells)
        except ValueError as exc:
            raise self._bad(exc) from exc

    def _bad(self, reason: ValueError) -> BadValue:
        return BadValue(f"{self}: {reason}"[:300])

    def _cells(self, raw: Raw) -> list[Any] | None:
        if self.column is None:
            return decode(raw, _any_list)
        if isinstance(self.column, int):
            try:
                return [row[self.column] for row in decode(raw, _any_list)]
            except (TypeError, IndexError, KeyError):
                raise BadValue(f"a row without item {self.column}") from None
        cells = [row.cell for row in decode(raw, _column_decoder(self.column))]
        return None if all(cell is msgspec.UNSET for cell in cells) else cells


@dataclass(frozen=True, slots=True)
class Source:
    """Ids, and the logprobs that the same payload gives for them. The first places that are there count."""

    token_ids: Place
    logprobs: tuple[Place, ...] = ()
    once: bool = False
    """In a stream the whole list stands at its end, beside the pieces of another source: no news for who had those."""


_any_list: Final = msgspec.json.Decoder(list[Any])


@lru_cache(maxsize=32)
def _column_decoder(column: str) -> msgspec.json.Decoder[list[Any]]:
    """For a list of objects of which one member is wanted: the others are skipped, not built."""
    row = msgspec.defstruct("Row", [("cell", Any, msgspec.UNSET)], rename={"cell": column}, gc=False)
    return msgspec.json.Decoder(list[row])  # type: ignore[valid-type]


def _ids_of_texts(cells: list[Any]) -> TokenIds | None:
    """The ids that these texts name; None where one of them is any other text."""
    ids: list[int] = []
    for cell in cells:
        number = cell.removeprefix(_TOKEN_ID_TEXT) if isinstance(cell, str) else ""
        if not number.isdecimal() or number == cell:
            return None
        ids.append(int(number))
    return TokenIds(ids)


def _logprobs(cells: list[Any]) -> Logprobs:
    if set(map(type, cells)) == {float} and _SENTINEL not in cells and math.isfinite(sum(cells)):
        return tuple(cells)  # As nearly all are.
    return tuple([_logprob(cell) for cell in cells])


def _logprob(cell: Any) -> float | None:
    if cell is None or cell == _SENTINEL:
        return None
    if type(cell) is float and math.isfinite(cell):
        return cell
    if type(cell) is int and abs(cell) < 1_000_000:
        return float(cell)
    raise BadValue(f"not a logprob: {cell!r}"[:200])
