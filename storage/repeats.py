"""The key by which a client says that it sends a call again, so that whichever gateway gets it finds the first."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection, select

from adapters.schema import Trace
from storage.tables import traces

IDEMPOTENCY_KEY: Final = "idempotency-key"
"""Its name among a request's recorded headers."""


def columns(trace: Trace) -> dict[str, Any]:
    return {"idempotency_key": trace.request.headers.get(IDEMPOTENCY_KEY)}


def latest(db: Connection, session_id: str, key: str) -> str | None:
    """The last call of a session with this key, by its trace id; ids are made in the order of time."""
    c = traces.c
    same = select(c.trace_id).where(c.session_id == session_id, c.idempotency_key == key)
    return db.scalar(same.order_by(c.trace_id.desc()).limit(1))
