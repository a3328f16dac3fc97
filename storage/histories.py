"""What a session's prompts may go on from and be stored against, read from its traces: all, or what is new of them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, bindparam, select

from storage.bases import Base, Bases
from storage.errors import CorruptTrace
from storage.parents import Ends, unpack
from storage.payloads import PAYLOAD, Payloads
from storage.tables import AnyRow, traces

_log: Final = logging.getLogger(__name__)
_RELOADED_BASES: Final = 4

_c: Final = traces.c
_SINCE: Final = (
    select(_c.trace_id, _c.attempt, _c.turn, _c.status, _c.ends, _c.digest.is_not(None).label("has_payload"))
    .where(_c.session_id == bindparam("of"), _c.turn >= bindparam("settled"))
    .order_by(_c.turn)
)
_WITH_PAYLOADS: Final = (
    select(*PAYLOAD, _c.depth)
    .where(_c.session_id == bindparam("of"), _c.trace_id.in_(bindparam("wanted", expanding=True)))
    .order_by(_c.turn)
)


def catch_up(db: Connection, session_id: str, settled: int, ends: dict[int, Ends], bases: Bases) -> int:
    """Learn of what has ended from the turn `settled` on. Gives the turn from which on to look the next time."""
    rows = db.execute(_SINCE, {"of": session_id, "settled": settled}).all()
    for row in rows:  # Of two equal ends the one of the later turn is to be known.
        of_attempt = ends.setdefault(row.attempt, Ends())
        for end in unpack(row.trace_id, row.ends or b""):
            of_attempt.add(end)
    latest = [row.trace_id for row in rows if row.has_payload][-_RELOADED_BASES:]
    if new := [trace_id for trace_id in latest if trace_id not in bases]:
        _add_bases(db, session_id, new, bases)
    running = [row.turn for row in rows if row.status == "running"]
    return min(running, default=rows[-1].turn + 1 if rows else settled)


def _add_bases(db: Connection, session_id: str, trace_ids: Sequence[str], bases: Bases) -> None:
    payloads = Payloads(db)
    for known in bases:
        payloads.know(session_id, known.trace_id, known.text, known.ids)
    for row in db.execute(_WITH_PAYLOADS, {"of": session_id, "wanted": trace_ids}).all():
        if (base := _base(row, payloads)) is not None:
            bases.add(base, extended=bases.get(row.base_trace_id))


def _base(row: AnyRow, payloads: Payloads) -> Base | None:
    try:
        payload = payloads.of(row)
    except CorruptTrace:  # Whoever reads that trace is told; those after it are stored against another.
        _log.exception("trace %s of session %s can't be a base", row.trace_id, row.session_id)
        return None
    return Base(row.trace_id, row.depth, payload.text, payload.ids)
