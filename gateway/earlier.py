"""The earlier calls that a request names instead of repeating them: read from the database, so any gateway has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from adapters.schema import Session, Trace
from gateway.dialects.dialect import BadRequest, NamingDialect
from gateway.exchange import LARGE_BODY
from gateway.patience import Patience
from gateway.refusals import InvalidRequest, NotRecordable
from storage.errors import StorageError

T = TypeVar("T")


class TraceStore(Protocol):
    async def trace(self, trace_id: str, session_id: str | None = None) -> Trace | None:
        """Raises StorageError."""


async def earlier_calls(
    dialect: NamingDialect, body: bytes, session: Session, store: TraceStore, patience: Patience
) -> dict[str, Trace]:
    """Those of the same session that the body names, that their bodies name, and so on.

    A call that names no session has one of its own, and may go on with others of that kind: whoever has the id had the
    answer. Raises InvalidRequest; NotRecordable where the database can't be read.
    """
    found: dict[str, Trace] = {}
    asked = list(await parsed(dialect.names, body))
    while asked:
        trace_id = asked.pop()
        if trace_id in found:
            continue
        try:
            of_session = trace_id if session.implicit else session.session_id
            trace = await patience.wait_for(partial(store.trace, trace_id, of_session))
        except StorageError as exc:
            raise NotRecordable("The database can't be read now, so what came before is not known. Try again.") from exc
        if trace is not None:
            found[trace_id] = trace
            # An old body was read once already, but not every call that was recorded had a good one.
            if trace.dialect == dialect.name and trace.status == "ok" and trace.request.body is not None:
                asked += await parsed(dialect.names, trace.request.body)
    return found


async def parsed(read: Callable[[bytes], T], body: bytes) -> T:
    """What a dialect reads in a body. Raises InvalidRequest."""
    try:
        return await asyncio.to_thread(read, body) if len(body) > LARGE_BODY else read(body)
    except BadRequest as exc:
        raise InvalidRequest(exc.error) from exc
