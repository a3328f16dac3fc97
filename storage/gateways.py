"""Heartbeats: which gateways live, and an end for the calls of those that do not."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, and_, delete, or_, select, tuple_, update

from storage.database import Database
from storage.records import GatewayHeard
from storage.tables import gateways, traces

SILENT_FOR: Final = timedelta(seconds=30)
"""A gateway that has not been heard of for so long is dead."""
HEARD_FOR: Final = timedelta(minutes=10)
"""For so long one is shown."""
INTERRUPTED: Final = "the gateway ended before the call did"


def beat(database: Database, db: Connection, told: GatewayHeard) -> None:
    row = asdict(told)
    db.execute(database.insert(gateways).on_conflict_do_update(index_elements=[gateways.c.gateway_id], set_=row), row)


def live(database: Database, gateway_id: str, spool_depth: int, spool_oldest_s: float | None, db: Connection) -> None:
    """Say that this gateway lives, and end the calls of those that no longer do."""
    now = database.now(db)
    beat(database, db, GatewayHeard(gateway_id, now, spool_depth, spool_oldest_s))
    if not database.exclusive:
        interrupt_silent(db, now)


def heard(db: Connection, database: Database) -> tuple[GatewayHeard, ...]:
    """Those that live, or died a moment ago, or left something to bring in."""
    lately = database.now(db) - HEARD_FOR
    wanted = select(gateways).where(or_(gateways.c.heartbeat_at > lately, gateways.c.spool_depth > 0))
    return tuple(GatewayHeard(**row) for row in db.execute(wanted.order_by(gateways.c.gateway_id)).mappings())


def start(database: Database, db: Connection) -> None:
    """Where this gateway is the only one, every call that still runs is a dead one's. Else silence tells."""
    if database.exclusive:
        db.execute(_INTERRUPT)
        db.execute(delete(gateways).where(gateways.c.spool_depth == 0))
    else:
        interrupt_silent(db, database.now(db))


def forget(db: Connection, gateway_id: str) -> None:
    """It has ended, and nothing of its own is left to bring in."""
    db.execute(delete(gateways).where(gateways.c.gateway_id == gateway_id))


def all_drained(db: Connection, database: Database, but: str) -> bool:
    """Whether no other gateway than this one has anything in its spool, as far as anyone knows.

    One that died, or is cut off, may have some that it could not tell of. It is waited for, but not for ever: what
    never comes back should not be in doubt for ever either.
    """
    now = database.now(db)
    heard_at = gateways.c.heartbeat_at
    silent = and_(heard_at <= now - SILENT_FOR, heard_at > now - HEARD_FOR)
    undrained = select(gateways.c.gateway_id).where(
        gateways.c.gateway_id != but, or_(gateways.c.spool_depth > 0, silent)
    )
    return db.execute(undrained.limit(1)).first() is None


def interrupt_silent(db: Connection, now: datetime) -> int:
    """End the running calls of gateways that are silent, or of which nothing is known."""
    alive = select(gateways.c.gateway_id).where(gateways.c.heartbeat_at > now - SILENT_FOR)
    left = select(traces.c.session_id, traces.c.trace_id).where(
        traces.c.status == "running", or_(traces.c.gateway_id.is_(None), traces.c.gateway_id.not_in(alive))
    )
    # A row that somebody holds is not left: its end is being written, or another gateway is at the same as this one.
    free = left.with_for_update(skip_locked=True, of=traces)
    return db.execute(_INTERRUPT.where(tuple_(traces.c.session_id, traces.c.trace_id).in_(free))).rowcount


_INTERRUPT: Final = (
    update(traces).where(traces.c.status == "running").values(status="interrupted", fidelity_reason=INTERRUPTED)
)
