"""The client for programs that wait: `Client`, and what it gives out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from types import TracebackType
from typing import Any, Self, SupportsFloat, TypeVar, Unpack

import httpx

from gateway.client import calls
from gateway.client.connection import LOCAL, Connection, Reach
from gateway.client.filters import (
    BackendChanges,
    BackendFields,
    ClaimFilters,
    ExportFilters,
    GroupFilters,
    Labels,
    NewLabels,
    RewardFields,
    SampleFilters,
    SampleOptions,
    SessionFilters,
    TraceFilters,
)
from gateway.client.handles import SessionHandle, WorkHandle, ending_of, noting
from gateway.client.listing import Listed, Listing, followed, listed
from gateway.client.samples import Sample
from gateway.client.saving import NEXT_CURSOR, PART, Exported, Writable, saving
from gateway.client.status import GatewayStatus
from gateway.client.traces import Trace
from gateway.client.updates import (
    Pause,
    PauseFields,
    Resumed,
    ResumeFields,
    Update,
    WeightEvent,
    WeightEventFilters,
    WeightVersions,
)
from gateway.client.values import Backend, Claim, Ending, Group, NewSession, Session

Item = TypeVar("Item")


class Items(Listed[Item]):
    """A list that is iterated over: each page is asked for when the one before has been given out."""

    def __init__(self, connection: Connection, listing: Listing[Item]) -> None:
        super().__init__(listing)
        self._connection = connection

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Item:
        while not self._held:
            if (call := self._listing.next_page()) is None:
                raise StopIteration
            self._held.extend(self._listing.took(self._connection.do(call)))
        return self._held.popleft()


class OpenSession(SessionHandle):
    """A session to run an agent in, to reward and to finish."""

    def __init__(self, connection: Connection, made: NewSession) -> None:
        super().__init__(made)
        self._connection = connection

    def reward(self, value: SupportsFloat, **told: Unpack[RewardFields]) -> None:
        self._connection.do(calls.reward(self.id, value, told))

    def finish(self, status: Ending = "finished") -> None:
        """It takes no more calls; rewards may still come."""
        self.session = self._connection.do(calls.finish_session(self.id, status))

    def end(self, status: Ending) -> None:
        """Finishes it unless that was done."""
        if self.status == "open":
            self.finish(status)


class Work(WorkHandle):
    """Claimed sessions: to train on, then to acknowledge."""

    def __init__(self, connection: Connection, claim: Claim | None) -> None:
        super().__init__(claim)
        self._connection = connection

    def samples(self, **options: Unpack[SampleOptions]) -> Items[Sample]:
        return Items(self._connection, self._listed(calls.samples, options))

    def rows(self, shape: str, **options: Unpack[SampleOptions]) -> Items[Mapping[str, Any]]:
        """In a trainer's own shape, as `Client.rows`."""
        return Items(self._connection, self._listed(calls.rows, {**options, "shape": shape}))

    def extend(self, lease: float) -> None:
        """Holds it for so many seconds from now. Raises ClaimExpired where it is too late."""
        if self.claim is not None:
            self.claim = self._connection.do(calls.extend(self.claim.claim_id, lease))

    def acknowledge(self) -> None:
        """It is trained on, and not offered to this consumer again. Raises ClaimExpired where it is too late."""
        if (claim_id := self._settle()) is not None:
            self.claim = self._connection.do(calls.acknowledge(claim_id))

    def release(self) -> None:
        """Others may have it at once."""
        if (claim_id := self._settle()) is not None:
            self.claim = self._connection.do(calls.release(claim_id))


class Client:
    """A gateway, as a trainer uses it. Any thread may call; a forked process makes a client of its own.

    `key` is the gateway's admin key, `timeout` how many seconds nothing may come, `retries` how often a call that can
    be repeated is tried again. Every call raises GatewayError.
    """

    def __init__(
        self,
        url: str = LOCAL,
        *,
        key: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._connection = Connection(Reach(url, key, timeout, retries), transport)
        self._do = self._connection.do

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    # Sessions

    @contextmanager
    def session(self, **labels: Unpack[NewLabels]) -> Iterator[OpenSession]:
        """A session that ends with the `with`: `finished`, or `failed` by an exception (`aborted` by Ctrl-C)."""
        session = self.create_session(**labels)
        try:
            yield session
        except BaseException as exc:
            with noting(exc, f"session {session.id} could not be finished"):
                session.end(ending_of(exc))
            raise
        session.end("finished")

    def create_session(self, **labels: Unpack[NewLabels]) -> OpenSession:
        """A session that its caller finishes."""
        return OpenSession(self._connection, self._do(calls.create_session(labels)))

    def read_session(self, session_id: str) -> Session:
        return self._do(calls.read_session(session_id))

    def sessions(self, **filters: Unpack[SessionFilters]) -> Items[Session]:
        """By the time of their making."""
        return Items(self._connection, listed(calls.sessions, filters))

    def change_session(self, session_id: str, **labels: Unpack[Labels]) -> Session:
        """What is named; `metadata` is replaced whole."""
        return self._do(calls.change_session(session_id, labels))

    def reward(self, session_id: str, value: SupportsFloat, **told: Unpack[RewardFields]) -> None:
        """Also long after the session's end: it rides on the samples that are asked for from then on."""
        self._do(calls.reward(session_id, value, told))

    def finish_session(self, session_id: str, status: Ending = "finished") -> Session:
        return self._do(calls.finish_session(session_id, status))

    def delete_session(self, session_id: str) -> None:
        """With all its traces, for good."""
        self._do(calls.delete_session(session_id))

    # What comes out

    def samples(self, **filters: Unpack[SampleFilters]) -> Items[Sample]:
        """Of finished sessions, in the order in which they ended."""
        return Items(self._connection, listed(calls.samples, filters))

    def session_samples(self, session_id: str, **options: Unpack[SampleOptions]) -> tuple[Sample, ...]:
        """One session's, whatever its status: of an open one, those of its calls so far."""
        return self._do(calls.session_samples(session_id, options))

    def rows(self, shape: str, **filters: Unpack[SampleFilters]) -> Items[Mapping[str, Any]]:
        """As `samples`, each a trainer's own record (`verl`, `slime`, `trl` …) as JSON has it."""
        return Items(self._connection, listed(calls.rows, {**filters, "shape": shape}))

    def follow(self, *, idle: float | None = None, **filters: Unpack[SampleFilters]) -> Items[Sample]:
        """As `samples`, and then each one that comes, without end: until `idle` seconds have brought none."""
        return Items(self._connection, followed(calls.samples, filters, idle))

    def traces(self, **filters: Unpack[TraceFilters]) -> Items[Trace]:
        return Items(self._connection, listed(calls.traces, filters))

    def read_trace(self, trace_id: str) -> Trace:
        return self._do(calls.read_trace(trace_id))

    def groups(self, **filters: Unpack[GroupFilters]) -> Items[Group]:
        return Items(self._connection, listed(calls.groups, filters))

    @contextmanager
    def claim(self, *, wait: float = 0.0, **wanted: Unpack[ClaimFilters]) -> Iterator[Work]:
        """Sessions or groups that are nobody else's until the lease ends: acknowledged at the end of the `with`,
        released by an exception. After `wait` seconds without any the work is false, and nothing to acknowledge."""
        work = self.create_claim(wait=wait, **wanted)
        try:
            yield work
        except BaseException as exc:
            with noting(exc, "the claim could not be released"):
                work.release()
            raise
        work.acknowledge()

    def create_claim(self, *, wait: float = 0.0, **wanted: Unpack[ClaimFilters]) -> Work:
        """A claim that its caller acknowledges."""
        return Work(self._connection, self._do(calls.claim(wanted, wait=wait)))

    def read_claim(self, claim_id: str) -> Work:
        """One that was made before, maybe by another process."""
        return Work(self._connection, self._do(calls.read_claim(claim_id)))

    def export(self, to: str | PathLike[str] | Writable, **wanted: Unpack[ExportFilters]) -> Exported:
        """Samples, or traces, into a file. Under the name that is given there is a whole one, or what was there."""
        size = 0
        with saving(to) as file, self._connection.stream(calls.export(wanted)) as response:
            for part in response.iter_bytes(PART):
                file.write(part)
                size += len(part)
        return Exported(size, response.headers.get(NEXT_CURSOR))

    # Administration

    def backends(self) -> tuple[Backend, ...]:
        return self._do(calls.backends())

    def add_backend(self, url: str, **known: Unpack[BackendFields]) -> Backend:
        return self._do(calls.add_backend(url, known))

    def change_backend(self, name: str, **changes: Unpack[BackendChanges]) -> Backend:
        """From the next call on. At another URL it is asked what it is first, and its key is taken away."""
        return self._do(calls.change_backend(name, changes))

    def drain_backend(self, name: str, *, wait: float = 0) -> Backend:
        """No session begins there any more. Waits so many seconds, 60 at most, for `drained`."""
        return self._do(calls.drain_backend(name, wait))

    def undrain_backend(self, name: str) -> Backend:
        return self._do(calls.undrain_backend(name))

    def remove_backend(self, name: str) -> None:
        self._do(calls.remove_backend(name))

    def probe_backend(self, name: str) -> Backend:
        """Asks it again what it is."""
        return self._do(calls.probe_backend(name))

    def status(self) -> GatewayStatus:
        return self._do(calls.status())

    # Weights

    @contextmanager
    def weights_update(
        self, version: str, *, wait: float = 600.0, flush: bool = False, **fields: Unpack[PauseFields]
    ) -> Iterator[Pause]:
        """The `with` in which the engines get other weights: new calls wait, and those in flight have ended.

        At its end the backends have this version, and calls go on; after an exception they go on as they were. `flush`
        empties the engines' caches before that. Raises NotDrained where calls do not end within `wait` seconds,
        EngineRefused, and PauseExpired where the update took longer than `ttl`.
        """
        update = Update(version, wait, fields)
        try:
            pause = self._do(calls.pause(update.waiting()))
            while not update.is_drained(pause):
                pause = self._do(calls.pause(update.waiting()))
            if (engines := update.engines()) is not None:
                pause = self._do(calls.pause(engines))
            yield pause
            self._do(calls.set_weight_version(version, update.backends))
        except BaseException as exc:
            with noting(exc, f"the pause {update.pause_id} could not be released"):
                self._do(calls.resume({"pause_id": update.pause_id}))
            raise
        update.check(self._do(calls.resume({"pause_id": update.pause_id, "flush": flush})))

    def pause(self, *, wait: float = 0.0, **fields: Unpack[PauseFields]) -> Pause:
        """Holds new calls until `resume`, or until `ttl` is over; waits up to 60 seconds for those in flight."""
        return self._do(calls.pause({**fields, "wait": wait}))

    def pauses(self) -> tuple[Pause, ...]:
        return self._do(calls.pauses())

    def resume(self, pause_id: str | None = None, **which: Unpack[ResumeFields]) -> Resumed:
        """Ends one pause; with `backends` as far as these are concerned; with `all=True` every one."""
        return self._do(calls.resume({**which, "pause_id": pause_id}))

    def weight_versions(self) -> WeightVersions:
        return self._do(calls.weight_versions())

    def set_weight_version(self, version: str, backends: Sequence[str] | None = None) -> WeightVersions:
        """Of calls that are dispatched from now on; what an engine says of its answers stands above it."""
        return self._do(calls.set_weight_version(version, backends))

    def weight_events(self, **filters: Unpack[WeightEventFilters]) -> Items[WeightEvent]:
        """Every change of a backend's version, the oldest first."""
        return Items(self._connection, listed(calls.weight_events, filters))
