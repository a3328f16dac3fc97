"""Payloads as they are read: each blob against its base, as deep as bases go, proved by the digest."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from sqlalchemy import Connection, select

from storage import deltas
from storage.codec import Payload
from storage.errors import CorruptTrace
from storage.tables import AnyRow, traces

_CACHE_BYTES: Final = 64 * 1024 * 1024
_LINK: Final = (traces.c.trace_id, traces.c.base_trace_id, traces.c.text, traces.c.ids)


class Payloads:
    """Reads payloads in one transaction, and keeps those that the next are likely to be stored against."""

    def __init__(self, db: Connection) -> None:
        self._db = db
        self._known: OrderedDict[tuple[str, str], tuple[bytes, bytes]] = OrderedDict()
        self._known_bytes = 0

    def of(self, row: AnyRow) -> Payload:
        """The payload of a row of `traces`. Raises CorruptTrace."""
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
        while links[-1].base_trace_id is not None:
            base = self._recall(row.session_id, links[-1].base_trace_id)
            if base is not None:
                break
            links.append(self._link(row.session_id, links[-1].base_trace_id))
        for link in reversed(links):
            text, ids = base if base is not None else (None, None)
            base = deltas.decode(link.text, text), deltas.decode(link.ids, ids) if link.ids else b""
            self.know(row.session_id, link.trace_id, *base)
        assert base is not None
        return base

    def _link(self, session_id: str, trace_id: str) -> AnyRow:
        key = (traces.c.session_id == session_id) & (traces.c.trace_id == trace_id)
        row = self._db.execute(select(*_LINK).where(key)).first()
        if row is None:
            raise deltas.BadDelta(f"its base {trace_id} is missing")
        return row

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
