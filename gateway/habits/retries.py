"""Calls that an SDK sends again, by itself, because it got no answer: the earlier attempt is superseded.

Only a header says so. A body that is equal to an earlier one's may be a real new call, after a compaction or of a
harness that samples the same prompt several times; so may one whose header counts from an attempt that never came here.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final, Protocol

from adapters.schema import Session, Trace
from gateway.patience import Patience
from storage.errors import StorageError
from storage.repeats import IDEMPOTENCY_KEY

logger = logging.getLogger(__name__)

_RETRY_COUNT: Final = "x-stainless-retry-count"
_KEYS: Final = 10_000
# An attempt that is repeated was made just now. Agents of one session may call at the same time.
_LOOKED_AT: Final = 16


class TraceStore(Protocol):
    """What this module needs of the store."""

    async def latest_traces(self, session_id: str, limit: int) -> Sequence[Trace]: ...
    async def latest_of_key(self, session_id: str, key: str) -> str | None: ...


class Retries:
    """Knows the bodies of the calls in flight here; all others are the database's, whichever gateway had them."""

    def __init__(self, store: TraceStore, *, shared: bool = False, patience: Patience | None = None) -> None:
        """`shared`: other gateways write to the same database."""
        self._store = store
        self._shared = shared
        self._patience = patience or Patience()
        self._in_flight: dict[tuple[str, int], dict[str, bytes]] = {}
        """Bodies by trace id, by session and attempt."""
        self._keys: OrderedDict[tuple[str, int, str], str] = OrderedDict()
        """The latest call here with an idempotency key, by session, attempt and key: those seen last."""

    async def began(self, session: Session, trace_id: str, headers: Mapping[str, str], body: bytes) -> str | None:
        """The attempt that this call repeats. Whoever began is to be told of in `ended`."""
        if session.implicit:
            return None  # Nothing else is of its session.
        others = self._in_flight.setdefault((session.session_id, session.attempt), {})
        found = [earlier for earlier, its_body in others.items() if its_body == body] if others else []
        others[trace_id] = body
        key = headers.get(IDEMPOTENCY_KEY)
        keyed = None if key is None else self._same_key(session, key, trace_id)
        elsewhere = self._shared and key is not None and headers.get(_RETRY_COUNT) != "0"
        if keyed is None and not elsewhere and not _counts(headers):
            return None
        latest: Sequence[Trace] = ()
        try:
            if elsewhere and key is not None:
                told = await self._patience.wait_for(partial(self._store.latest_of_key, session.session_id, key))
                keyed = max(filter(None, (keyed, told)), default=None)
            if keyed is not None or _counts(headers):
                ask = partial(self._store.latest_traces, session.session_id, _LOOKED_AT)
                latest = await self._patience.wait_for(ask)
        except StorageError as exc:
            logger.warning("trace %s: which attempt it repeats could not be looked up: %s", trace_id, exc)
        found += _unanswered([trace for trace in latest if trace.attempt == session.attempt], body)
        if keyed is None:
            # Ids are made in the order of time.
            return max(found, default=None)
        runs = any(trace.trace_id == keyed and trace.status == "running" for trace in latest)
        # Of a call that runs elsewhere the body is not known yet; the key says enough.
        return keyed if keyed in found or (runs and keyed not in others) else None

    def ended(self, trace: Trace) -> None:
        """A call is recorded, whichever way it ended."""
        of_it = trace.session_id, trace.attempt
        others = self._in_flight.get(of_it)
        if others is not None:
            others.pop(trace.trace_id, None)
            if not others:
                del self._in_flight[of_it]

    def _same_key(self, session: Session, key: str, trace_id: str) -> str | None:
        """The call here that had this one's idempotency key before it."""
        earlier = self._keys.pop((session.session_id, session.attempt, key), None)
        self._keys[session.session_id, session.attempt, key] = trace_id
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
