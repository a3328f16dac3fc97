"""Payloads as they are read: each blob against its base, as deep as bases go, proved by the digest."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, Select, bindparam, select

from storage import deltas
from storage.codec import Payload
from storage.errors import CorruptTrace
from storage.tables import AnyRow, traces

_CACHE_BYTES: Final = 64 * 1024 * 1024
_c: Final = traces.c
PAYLOAD: Final = (_c.session_id, _c.trace_id, _c.base_trace_id, _c.digest, _c.text, _c.ids, _c.logprobs, _c.experts)
"""Of a row what its payload is read from."""


def _bases() -> Select[Any]:
    """Of a trace the one it is stored against, what that is stored against, and so on to one that stands whole.

    In one statement: one for each would take ten times as long as to undo them. Each is looked up by its key, for a
    planner that joined them could take all rows of a session for each.
    """
    session_id, nearest = (bindparam(column.name, type_=column.type) for column in traces.primary_key)

    def by_key(column: Column[Any], trace_id: ColumnElement[str]) -> Select[Any]:
        return select(column).where(_c.session_id == session_id, _c.trace_id == trace_id)

    bases = by_key(_c.trace_id, nearest).cte("bases", recursive=True)

    def of_base(column: Column[Any]) -> Any:
        return by_key(column, bases.c.trace_id).scalar_subquery().label(column.name)

    further = select(of_base(_c.base_trace_id)).where(bases.c.trace_id.is_not(None))
    bases = bases.union(further)  # Each once: so it ends, whatever a damaged database says.
    return select(bases.c.trace_id, *map(of_base, (_c.base_trace_id, _c.text, _c.ids)))


_BASES: Final = _bases()


class Payloads:
    """Reads payloads in one transaction, and keeps those that the next are likely to be stored against."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._known: OrderedDict[tuple[str, str], tuple[bytes, bytes]] = OrderedDict()
        self._known_bytes = 0

    def of(self, row: AnyRow) -> Payload:
        """The payload of a row of `traces`, or of its columns of a payload. Raises CorruptTrace."""
        try:
            text, ids = self._text_and_ids(row)
            payload = Payload(
                text=text,
                ids=ids,
                logprobs=deltas.decode(row.logprobs) if row.logprobs else b"",
                experts=deltas.decode(row.experts) if row.experts else b"",
            )
        except deltas.BadDelta as exc:
            raise CorruptTrace(row.session_id, row.trace_id, str(exc)) from exc
        if row.digest is not None and payload.digest() != row.digest:
            raise CorruptTrace(row.session_id, row.trace_id, "its digest differs")
        return payload

    def _text_and_ids(self, row: AnyRow) -> tuple[bytes, bytes]:
        """Undo the links from the first that needs nothing unknown, down to this row's own."""
        links = [row]
        base: tuple[bytes, bytes] | None = None
        read: dict[str, AnyRow] | None = None
        while (nearest := links[-1].base_trace_id) is not None:
            base = self._recall(row.session_id, nearest)
            if base is not None:
                break
            if read is None:
                read = self._bases_of(row)
            if nearest not in read:
                raise deltas.BadDelta(f"its base {nearest} is missing")
            links.append(read.pop(nearest))
        for link in reversed(links):
            text, ids = base if base is not None else (None, None)
            base = deltas.decode(link.text, text), deltas.decode(link.ids, ids) if link.ids else b""
            self.know(row.session_id, link.trace_id, *base)
        assert base is not None
        return base

    def _bases_of(self, row: AnyRow) -> dict[str, AnyRow]:
        found = self._db.execute(_BASES, {"session_id": row.session_id, "trace_id": row.base_trace_id})
        return {each.trace_id: each for each in found if each.text is not None}

    def _recall(self, session_id: str, trace_id: str) -> tuple[bytes, bytes] | None:
        known = self._known.get((session_id, trace_id))
        if known is not None:
            self._known.move_to_end((session_id, trace_id))
        return known

    def know(self, session_id: str, trace_id: str, text: bytes, ids: bytes) -> None:
        """What this trace's are, so that they need not be read where others are stored against it."""
        if (session_id, trace_id) in self._known:
            return
        self._known[session_id, trace_id] = text, ids
        self._known_bytes += len(text) + len(ids)
        while self._known_bytes > _CACHE_BYTES and len(self._known) > 1:
            _, forgotten = self._known.popitem(last=False)
            self._known_bytes -= sum(map(len, forgotten))
