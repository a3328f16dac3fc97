"""What is wrong with a gateway at the moment, in a sentence each; nothing where it is well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gateway.api.backend_status import BackendStatus
from gateway.exchange import Counters
from gateway.weights.gate import Standing
from storage.records import GatewayHeard, StoreCounts

_OLD_SECONDS = 30.0


def concerns(
    store: StoreCounts,
    counters: Counters,
    backends: Sequence[BackendStatus],
    others: Sequence[GatewayHeard],
    pauses: Iterable[Standing] = (),
) -> tuple[str, ...]:
    """Whatever endangers records first, then what keeps calls from being served."""
    return (*_of_records(store, counters, others), *_of_backends(backends), *_of_pauses(pauses))


def _of_records(store: StoreCounts, counters: Counters, others: Sequence[GatewayHeard]) -> Iterator[str]:
    lost = counters.answered - counters.recorded
    if lost > 0:
        yield f"{lost} answers were given whose trace was not recorded first: this is a defect"
    if store.refused or store.spool_refused:
        yield f"{store.refused + store.spool_refused} rows were taken by no database; the log names them"
    if not store.writer_alive:
        yield "the writer has ended: nothing goes into the database"
    if store.unable is not None:
        yield f"the database can't be written: {store.unable}"
    if store.spool_unable is not None:
        yield f"the spool can't be written: {store.spool_unable}"
    if store.spool_depth:
        since = _since(store.spool_oldest_s)
        yield f"{store.spool_depth} traces are in the spool and not in the database{since}"
    if store.oldest_queued_ms is not None and store.oldest_queued_ms > _OLD_SECONDS * 1e3:
        yield f"the writer is {store.oldest_queued_ms / 1e3:.0f} s behind"
    for other in others:
        if other.spool_depth:
            since = _since(other.spool_oldest_s)
            yield f"the gateway {other.gateway_id} has {other.spool_depth} traces in its spool{since}"


def _since(oldest_s: float | None) -> str:
    return "" if oldest_s is None else f", the oldest for {oldest_s:.0f} s"


def _of_backends(backends: Sequence[BackendStatus]) -> Iterator[str]:
    if not backends:
        yield "no backend is configured"
    elif all(backend.health == "down" for backend in backends):
        yield "no backend can be reached"
    for backend in backends:
        if backend.health == "down":
            yield f"the backend {backend.name} is down: {backend.last_error or 'it does not answer'}"


def _of_pauses(pauses: Iterable[Standing]) -> Iterator[str]:
    for standing in pauses:
        pause = standing.pause
        over = ", ".join(pause.backends) if pause.backends is not None else "all backends"
        who = f" by {pause.owner}" if pause.owner is not None else ""
        yield f"{over} paused since {pause.created_at:%H:%M:%S} UTC{who}; {standing.held} calls wait here"
