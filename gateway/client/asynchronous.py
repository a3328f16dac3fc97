"""The client for programs on an event loop: `AsyncClient`, and what it gives out. Call for call as `blocking`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from types import TracebackType
from typing import Any, Self, SupportsFloat, TypeVar, Unpack

import httpx

from gateway.client import calls
from gateway.client.connection import LOCAL, AsyncConnection, Reach
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


class AsyncItems(Listed[Item]):
    """A list that is iterated over: each page is asked for when the one before has been given out."""

    def __init__(self, connection: AsyncConnection, listing: Listing[Item]) -> None:
        super().__init__(listing)
        self._connection = connection

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        while not self._held:
            if (call := self._listing.next_page()) is None:
                raise StopAsyncIteration
            self._held.extend(self._listing.took(await self._connection.do(call)))
        return self._held.popleft()


class AsyncOpenSession(SessionHandle):
    """A session to run an agent in, to reward and to finish."""

    def __init__(self, connection: AsyncConnection, made: NewSession) -> None:
        super().__init__(made)
        self._connection = connection

    async def reward(self, value: SupportsFloat, **told: Unpack[RewardFields]) -> None:
        await self._connection.do(calls.reward(self.id, value, told))

    async def finish(self, status: Ending = "finished") -> None:
        """It takes no more calls; rewards may still come."""
        self.session = await self._connection.do(calls.finish_session(self.id, status))

    async def end(self, status: Ending) -> None:
        """Finishes it unless that was done."""
        if self.status == "open":
            await self.finish(status)


class AsyncWork(WorkHandle):
    """Claimed sessions: to train on, then to acknowledge."""

    def __init__(self, connection: AsyncConnection, claim: Claim | None) -> None:
        super().__init__(claim)
        self._connection = connection

    def samples(self, **options: Unpack[SampleOptions]) -> AsyncItems[Sample]:
        return AsyncItems(self._connection, self._listed(calls.samples, options))

    def rows(self, shape: str, **options: Unpack[SampleOptions]) -> AsyncItems[Mapping[str, Any]]:
        """In a trainer's own shape, as `AsyncClient.rows`."""
        return AsyncItems(self._connection, self._listed(calls.rows, {**options, "shape": shape}))

    async def extend(self, lease: float) -> None:
        """Holds it for so many seconds from now. Raises ClaimExpired where it is too late."""
        if self.claim is not None:
            self.claim = await self._connection.do(calls.extend(self.claim.claim_id, lease))

    async def acknowledge(self) -> None:
        """It is trained on, and not offered to this consumer again. Raises ClaimExpired where it is too late."""
        if (claim_id := self._settle()) is not None:
            self.claim = await self._connection.do(calls.acknowledge(claim_id))

    async def release(self) -> None:
        """Others may have it at once."""
        if (claim_id := self._settle()) is not None:
            self.claim = await self._connection.do(calls.release(claim_id))


class AsyncClient:
    """A gateway, as a trainer on an event loop uses it. A client belongs to one loop.

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
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._connection = AsyncConnection(Reach(url, key, timeout, retries), transport)
        self._do = self._connection.do

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connection.close()

    # Sessions

    @asynccontextmanager
    async def session(self, **labels: Unpack[NewLabels]) -> AsyncIterator[AsyncOpenSession]:
        """A session that ends with the `with`: `finished`, or `failed` by an exception (`aborted` if cancelled)."""
        session = await self.create_session(**labels)
        try:
            yield session
        except BaseException as exc:
            with noting(exc, f"session {session.id} could not be finished"):
                await session.end(ending_of(exc))
            raise
        await session.end("finished")

    async def create_session(self, **labels: Unpack[NewLabels]) -> AsyncOpenSession:
        """A session that its caller finishes."""
        return AsyncOpenSession(self._connection, await self._do(calls.create_session(labels)))

    async def read_session(self, session_id: str) -> Session:
        return await self._do(calls.read_session(session_id))

    def sessions(self, **filters: Unpack[SessionFilters]) -> AsyncItems[Session]:
        """By the time of their making."""
        return AsyncItems(self._connection, listed(calls.sessions, filters))

    async def change_session(self, session_id: str, **labels: Unpack[Labels]) -> Session:
        """What is named; `metadata` is replaced whole."""
        return await self._do(calls.change_session(session_id, labels))

    async def reward(self, session_id: str, value: SupportsFloat, **told: Unpack[RewardFields]) -> None:
        """Also long after the session's end: it rides on the samples that are asked for from then on."""
        await self._do(calls.reward(session_id, value, told))

    async def finish_session(self, session_id: str, status: Ending = "finished") -> Session:
        return await self._do(calls.finish_session(session_id, status))

    async def delete_session(self, session_id: str) -> None:
        """With all its traces, for good."""
        await self._do(calls.delete_session(session_id))

    # What comes out

    def samples(self, **filters: Unpack[SampleFilters]) -> AsyncItems[Sample]:
        """Of finished sessions, in the order in which they ended."""
        return AsyncItems(self._connection, listed(calls.samples, filters))

    async def session_samples(self, session_id: str, **options: Unpack[SampleOptions]) -> tuple[Sample, ...]:
        """One session's, whatever its status: of an open one, those of its calls so far."""
        return await self._do(calls.session_samples(session_id, options))

    def rows(self, shape: str, **filters: Unpack[SampleFilters]) -> AsyncItems[Mapping[str, Any]]:
        """As `samples`, each a trainer's own record (`verl`, `slime`, `trl` …) as JSON has it."""
        return AsyncItems(self._connection, listed(calls.rows, {**filters, "shape": shape}))

    def follow(self, *, idle: float | None = None, **filters: Unpack[SampleFilters]) -> AsyncItems[Sample]:
        """As `samples`, and then each one that comes, without end: until `idle` seconds have brought none."""
        return AsyncItems(self._connection, followed(calls.samples, filters, idle))

    def traces(self, **filters: Unpack[TraceFilters]) -> AsyncItems[Trace]:
        return AsyncItems(self._connection, listed(calls.traces, filters))

    async def read_trace(self, trace_id: str) -> Trace:
        return await self._do(calls.read_trace(trace_id))

    def groups(self, **filters: Unpack[GroupFilters]) -> AsyncItems[Group]:
        return AsyncItems(self._connection, listed(calls.groups, filters))

    @asynccontextmanager
    async def claim(self, *, wait: float = 0.0, **wanted: Unpack[ClaimFilters]) -> AsyncIterator[AsyncWork]:
        """Sessions or groups that are nobody else's until the lease ends: acknowledged at the end of the `with`,
        released by an exception. After `wait` seconds without any the work is false, and nothing to acknowledge."""
        work = await self.create_claim(wait=wait, **wanted)
        try:
            yield work
        except BaseException as exc:
            with noting(exc, "the claim could not be released"):
                await work.release()
            raise
        await work.acknowledge()

    async def create_claim(self, *, wait: float = 0.0, **wanted: Unpack[ClaimFilters]) -> AsyncWork:
        """A claim that its caller acknowledges."""
        return AsyncWork(self._connection, await self._do(calls.claim(wanted, wait=wait)))

    async def read_claim(self, claim_id: str) -> AsyncWork:
        """One that was made before, maybe by another process."""
        return AsyncWork(self._connection, await self._do(calls.read_claim(claim_id)))

    async def export(self, to: str | PathLike[str] | Writable, **wanted: Unpack[ExportFilters]) -> Exported:
        """Samples, or traces, into a file. Under the name that is given there is a whole one, or what was there."""
        size = 0
        with saving(to) as file:
            async with self._connection.stream(calls.export(wanted)) as response:
                async for part in response.aiter_bytes(PART):
                    await asyncio.to_thread(file.write, part)
                    size += len(part)
        return Exported(size, response.headers.get(NEXT_CURSOR))

    # Administration

    async def backends(self) -> tuple[Backend, ...]:
        return await self._do(calls.backends())

    async def add_backend(self, url: str, **known: Unpack[BackendFields]) -> Backend:
        return await self._do(calls.add_backend(url, known))

    async def change_backend(self, name: str, **changes: Unpack[BackendChanges]) -> Backend:
        """From the next call on. At another URL it is asked what it is first, and its key is taken away."""
        return await self._do(calls.change_backend(name, changes))

    async def drain_backend(self, name: str, *, wait: float = 0) -> Backend:
        """No session begins there any more. Waits so many seconds, 60 at most, for `drained`."""
        return await self._do(calls.drain_backend(name, wait))

    async def undrain_backend(self, name: str) -> Backend:
        return await self._do(calls.undrain_backend(name))

    async def remove_backend(self, name: str) -> None:
        await self._do(calls.remove_backend(name))

    async def probe_backend(self, name: str) -> Backend:
        """Asks it again what it is."""
        return await self._do(calls.probe_backend(name))

    async def status(self) -> GatewayStatus:
        return await self._do(calls.status())

    # Weights

    @asynccontextmanager
    async def weights_update(
        self, version: str, *, wait: float = 600.0, flush: bool = False, **fields: Unpack[PauseFields]
    ) -> AsyncIterator[Pause]:
        """The `with` in which the engines get other weights: new calls wait, and those in flight have ended.

        At its end the backends have this version, and calls go on; after an exception they go on as they were. `flush`
        empties the engines' caches before that. Raises NotDrained where calls do not end within `wait` seconds,
        EngineRefused, and PauseExpired where the update took longer than `ttl`.
        """
        update = Update(version, wait, fields)
        try:
            pause = await self._do(calls.pause(update.waiting()))
            while not update.is_drained(pause):
                pause = await self._do(calls.pause(update.waiting()))
            if (engines := update.engines()) is not None:
                pause = await self._do(calls.pause(engines))
            yield pause
            await self._do(calls.set_weight_version(version, update.backends))
        except BaseException as exc:
            with noting(exc, f"the pause {update.pause_id} could not be released"):
                await self._do(calls.resume({"pause_id": update.pause_id}))
            raise
        update.check(await self._do(calls.resume({"pause_id": update.pause_id, "flush": flush})))

    async def pause(self, *, wait: float = 0.0, **fields: Unpack[PauseFields]) -> Pause:
        """Holds new calls until `resume`, or until `ttl` is over; waits up to 60 seconds for those in flight."""
        return await self._do(calls.pause({**fields, "wait": wait}))

    async def pauses(self) -> tuple[Pause, ...]:
        return await self._do(calls.pauses())

    async def resume(self, pause_id: str | None = None, **which: Unpack[ResumeFields]) -> Resumed:
        """Ends one pause; with `backends` as far as these are concerned; with `all=True` every one."""
        return await self._do(calls.resume({**which, "pause_id": pause_id}))

    async def weight_versions(self) -> WeightVersions:
        return await self._do(calls.weight_versions())

    async def set_weight_version(self, version: str, backends: Sequence[str] | None = None) -> WeightVersions:
        """Of calls that are dispatched from now on; what an engine says of its answers stands above it."""
        return await self._do(calls.set_weight_version(version, backends))

    def weight_events(self, **filters: Unpack[WeightEventFilters]) -> AsyncItems[WeightEvent]:
        """Every change of a backend's version, the oldest first."""
        return AsyncItems(self._connection, listed(calls.weight_events, filters))
