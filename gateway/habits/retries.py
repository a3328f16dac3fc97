"""Calls that an SDK sends again, by itself, because it got no answer: the earlier attempt is superseded.

Only a header says so. A body that is equal to an earlier one's may be a real new call, after a compaction or of a
harness that samples the same prompt several times; so may one whose header counts from an attempt that never came here.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from adapters.schema import Session, Trace
from storage.errors import StorageError

logger = logging.getLogger(__name__)

_RETRY_COUNT: Final = "x-stainless-retry-count"
_KEY: Final = "idempotency-key"
_KEYS: Final = 10_000
# An attempt that is repeated was made just now. Agents of one session may call at the same time.
_LOOKED_AT: Final = 16


class TraceStore(Protocol):
    """What this module needs of the store."""

    async def latest_traces(self, session_id: str, limit: int) -> Sequence[Trace]: ...


class Retries:
    """Knows the bodies of the calls in flight; those that have ended are the database's."""

    def __init__(self, store: TraceStore) -> None:
        self._store = store
        self._in_flight: dict[str, dict[str, bytes]] = {}
        self._keys: OrderedDict[tuple[str, str], str] = OrderedDict()
        """The latest call with an idempotency key, by session and key: those seen last."""

    async def began(self, session: Session, trace_id: str, headers: Mapping[str, str], body: bytes) -> str | None:
        """The attempt that this call repeats. Whoever began is to be told of in `ended`."""
        if session.implicit:
            return None  # Nothing else is of its session.
        session_id = session.session_id
        others = self._in_flight.setdefault(session_id, {})
        found = [earlier for earlier, its_body in others.items() if its_body == body] if others else []
        others[trace_id] = body
        keyed = self._same_key(session_id, headers, trace_id)
        if keyed is None and not _counts(headers):
            return None
        try:
            latest = await self._store.latest_traces(session_id, _LOOKED_AT)
        except StorageError as exc:
            logger.warning("trace %s: which attempt it repeats could not be looked up: %s", trace_id, exc)
            latest = ()
        found += _unanswered(latest, body)
        if keyed is not None:
            return keyed if keyed in found else None
        # Ids are made in the order of time.
        return max(found, default=None)

    def ended(self, trace: Trace) -> None:
        """A call is recorded, whichever way it ended."""
        others = self._in_flight.get(trace.session_id)
        if others is not None:
            others.pop(trace.trace_id, None)
            if not others:
                del self._in_flight[trace.session_id]

    def _same_key(self, session_id: str, headers: Mapping[str, str], trace_id: str) -> str | None:
        """The call that had this one's idempotency key before it."""
        key = headers.get(_KEY)
        if key is None:
            return None
        earlier = self._keys.pop((session_id, key), None)
        self._keys[session_id, key] = trace_id
        if len(self._keys) > _KEYS:
            self._keys.popitem(last=False)
        return earlier


def _counts(headers: Mapping[str, str]) -> bool:
    """Whether the SDK says that it has tried before: «0» at its first attempt."""
    count = headers.get(_RETRY_COUNT, "0")
    return count.isdecimal() and int(count[:9]) > 0


def _unanswered(latest: Sequence[Trace], body: bytes) -> Iterator[str]:
    """The calls with this body that no later one goes on from: where one does, the agent has had the answer."""
    parents = {trace.parent_trace_id for trace in latest}
    for trace in latest:
        if trace.request.body == body and trace.trace_id not in parents:
            yield trace.trace_id
