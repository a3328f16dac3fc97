"""What trainers and administrators do about weights: pause, resume, say which version a backend has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from adapters.control import Action, EnginePause
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.weights.engines import EngineAnswer, Engines
from gateway.weights.following import Following
from gateway.weights.gate import Standing
from gateway.weights.versions import Versions
from storage.records import Page
from storage.weights import (
    BackendWeights,
    EventQuery,
    GateHeard,
    PauseMode,
    StoredPause,
    WeightEvent,
    Weights,
)

_LOOK_EVERY: Final = 0.1


class EngineRefused(Exception):
    """An engine that was to be paused, or to go on, did not say that it does: what was asked for has not happened."""

    def __init__(self, action: Action, answers: Sequence[EngineAnswer]) -> None:
        self.failures = tuple(answer for answer in answers if not answer.ok)
        which = "; ".join(f"{each.backend}: {each.error or each.status}" for each in self.failures)
        super().__init__(f"not every engine did {action}: {which}")


@dataclass(frozen=True, slots=True)
class GateStatus:
    """How one gateway heeds a pause."""

    gateway_id: str
    acknowledged: bool
    """It holds calls by now."""
    in_flight: int | None
    """Calls that it still has at the paused backends; null until it has acknowledged."""
    held: int


@dataclass(frozen=True, slots=True)
class PauseStatus:
    """A pause, and how far it is."""

    pause_id: str
    owner: str | None
    backends: tuple[str, ...] | None
    """By name; null: all."""
    mode: PauseMode
    move: bool
    max_hold: float | None
    max_held: int
    engine: EnginePause | None
    released: tuple[str, ...]
    """Backends that were let go before the rest."""
    created_at: datetime
    expires_at: datetime
    drained: bool
    """Every gateway that lives holds new calls, and none has one left at these backends."""
    in_flight: int
    """Calls left, as far as the gateways have told."""
    held: int
    """Calls that wait."""
    gateways: tuple[GateStatus, ...]
    silent: tuple[str, ...]
    """Gateways that were not heard of for half a minute: dead, or cut off from the database. Nobody waits for them."""
    engines: tuple[EngineAnswer, ...] = ()
    """What the engines themselves said, where they were asked just now."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """What is paused no more, and what still is."""

    released: tuple[str, ...]
    """Pauses that ended."""
    pauses: tuple[PauseStatus, ...]
    """Those that are left: a backend is open when none covers it."""
    engines: tuple[EngineAnswer, ...]


class Control:
    """What it does holds at every gateway of the database; what it tells of one that is silent, it says so."""

    def __init__(
        self,
        weights: Weights,
        backends: Backends,
        versions: Versions,
        engines: Engines,
        following: Following,
        *,
        shared: bool,
    ) -> None:
        self._weights = weights
        self._backends = backends
        self._versions = versions
        self._engines = engines
        self._following = following
        self._shared = shared

    # Pauses

    @property
    def standing(self) -> list[Standing]:
        """Those that this gateway heeds now."""
        return self._following.standing

    async def pause(
        self, wanted: StoredPause, *, ttl: float, wait: float, given_up: Callable[[], Awaitable[bool]]
    ) -> PauseStatus:
        """Begin it or renew it, wait so many seconds for calls in flight, then pause the engines where that is wanted.

        Raises UnknownBackend, StorageError, and EngineRefused, after which nothing is paused by it any more.
        """
        self._named(wanted.backends)
        before = next((pause for pause in await self._pauses() if pause.pause_id == wanted.pause_id), None)
        # Who renews a pause need not say again that engines are paused by it, and have to go on at its end.
        kept = wanted.engine or (before.engine if before is not None else None)
        pause = await self._weights.pause(replace(wanted, engine=kept), ttl)
        await self._following.refresh()
        status = await self._drained(pause, wait, given_up)
        if wanted.engine is None:
            return status
        backends = self._covered(pause)
        answers = await self._engines.ask("pause", wanted.engine, backends)
        if not all(answer.ok for answer in answers):
            await self._weights.release([pause.pause_id])
            await self._following.refresh()
            await self._following.resume_engines(pause)
            raise EngineRefused("pause", answers)
        return await self._status(pause, answers)

    async def resume(
        self,
        pause_id: str | None,
        names: Sequence[str] | None,
        *,
        flush: bool,
        force: bool,
    ) -> Resumed:
        """End one pause or all; of some backends, these alone. The engines first, and where one refuses, nothing ends.

        Raises UnknownBackend, StorageError; EngineRefused unless by `force`.
        """
        self._named(names)
        pauses = await self._pauses()
        ending = [pause for pause in pauses if pause_id in (None, pause.pause_id)]
        left = [_without(pause, names) if pause in ending else pause for pause in pauses]
        answers = await self._resume_engines(pauses, [pause for pause in left if pause is not None], flush=flush)
        if not force and not all(answer.ok for answer in answers):
            raise EngineRefused("resume", answers)
        over = [pause.pause_id for pause, rest in zip(pauses, left, strict=True) if rest is None]
        released = await self._weights.release(over)
        for pause in ending:
            if names is not None and pause.pause_id not in over:
                await self._weights.let_go(pause.pause_id, names)
        await self._following.refresh()
        return Resumed(released, await self.pauses(), answers)

    async def pauses(self) -> tuple[PauseStatus, ...]:
        """Raises StorageError."""
        return tuple([await self._status(pause) for pause in await self._pauses()])

    async def _pauses(self) -> tuple[StoredPause, ...]:
        return (await self._weights.known()).pauses

    async def _drained(
        self, pause: StoredPause, seconds: float, given_up: Callable[[], Awaitable[bool]]
    ) -> PauseStatus:
        """The pause once it is drained, or as it is after so many seconds."""
        deadline = time.monotonic() + seconds
        status = await self._status(pause)
        while not status.drained and (left := deadline - time.monotonic()) > 0 and not await given_up():
            await asyncio.sleep(min(_LOOK_EVERY, left))
            status = await self._status(pause)
        return status

    async def _status(self, pause: StoredPause, engines: tuple[EngineAnswer, ...] = ()) -> PauseStatus:
        heard = [self._following.own(), *(await self._weights.gates() if self._shared else ())]
        gates = tuple(_gate(each, pause) for each in heard if each.live)
        return PauseStatus(
            pause_id=pause.pause_id,
            owner=pause.owner,
            backends=pause.backends,
            mode=pause.mode,
            move=pause.move,
            max_hold=pause.max_hold,
            max_held=pause.max_held,
            engine=pause.engine,
            released=pause.released,
            created_at=pause.created_at,
            expires_at=pause.expires_at,
            drained=all(gate.acknowledged and gate.in_flight == 0 for gate in gates),
            in_flight=sum(gate.in_flight or 0 for gate in gates),
            held=sum(gate.held for gate in gates),
            gateways=gates,
            silent=tuple(each.gateway_id for each in heard if not each.live),
            engines=engines,
        )

    async def _resume_engines(
        self, before: Sequence[StoredPause], after: Sequence[StoredPause], *, flush: bool
    ) -> tuple[EngineAnswer, ...]:
        """Those that no pause keeps paused any more, their caches emptied first where that is wanted."""
        opened = [b for b in self._backends.all() if _cover(before, b) and not _cover(after, b)]
        answers = await self._engines.ask("flush", "wait", opened) if flush else ()
        resumed = [b for b in opened if _cover([pause for pause in before if pause.engine is not None], b)]
        return answers + await self._engines.ask("resume", "wait", resumed)

    # Versions

    async def set_version(self, version: str, names: Sequence[str] | None) -> tuple[BackendWeights, ...]:
        """Of these backends, or of all. Raises UnknownBackend, StorageError."""
        backends = self._named(names)
        await self._weights.change(self._versions.changes(backends, version))
        await self._following.refresh()
        return await self.current()

    async def introduce(self, backend: Backend, version: str) -> None:
        """Of one that is about to serve, so that no call comes before it is known. Raises StorageError."""
        await self._weights.change(self._versions.changes([backend], version))
        backend.weight_version = version

    async def current(self) -> tuple[BackendWeights, ...]:
        """Of the backends that there are and whose version is known. Raises StorageError."""
        names = {backend.name for backend in self._backends.all()}
        return tuple(told for told in (await self._weights.known()).weights if told.backend in names)

    async def events(self, query: EventQuery) -> Page[WeightEvent]:
        """Raises BadCursor, StorageError."""
        return await self._weights.events(query)

    def _covered(self, pause: StoredPause) -> list[Backend]:
        return [backend for backend in self._backends.all() if pause.covers(backend.name)]

    def _named(self, names: Sequence[str] | None) -> list[Backend]:
        """Raises UnknownBackend."""
        return self._backends.all() if names is None else [self._backends.get(name) for name in names]


def _gate(heard: GateHeard, pause: StoredPause) -> GateStatus:
    if pause.pause_id not in heard.pauses:
        return GateStatus(heard.gateway_id, False, None, 0)
    in_flight = sum(calls for backend, calls in heard.in_flight.items() if pause.covers(backend))
    return GateStatus(heard.gateway_id, True, in_flight, heard.held.get(pause.pause_id, 0))


def _without(pause: StoredPause, names: Sequence[str] | None) -> StoredPause | None:
    """What is left of a pause when these are let go; None: nothing."""
    if names is None:
        return None
    rest = replace(pause, released=(*pause.released, *names))
    return rest if rest.backends is None or any(map(rest.covers, rest.backends)) else None


def _cover(pauses: Sequence[StoredPause], backend: Backend) -> bool:
    return any(pause.covers(backend.name) for pause in pauses)
