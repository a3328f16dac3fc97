"""Weights that change while agents run: what a trainer says, and what it is told. Values; the clients do the calls."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Self, TypedDict
from uuid import uuid4

from gateway.client.errors import NotDrained, PauseExpired
from gateway.client.reading import each, instant, known

PauseMode = Literal["hold", "reject"]
EnginePause = Literal["wait", "keep", "abort"]
WeightSource = Literal["administrator", "engine", "detection"]

_LONGEST_WAIT = 20.0
"""Seconds of one call; a longer wait is several."""


class PauseFields(TypedDict, total=False):
    """What may be said of a pause."""

    pause_id: str
    """One's own: told again it is the same pause, its time begun anew."""
    owner: str
    backends: Sequence[str]
    """By name; all unless given."""
    mode: PauseMode
    """New calls wait (`hold`), or get a 429 with `Retry-After`."""
    move: bool
    """Sessions go to a backend that is not paused instead of waiting for theirs."""
    max_hold: float
    """Seconds that one call may wait; as long as the pause lasts unless given."""
    max_held: int
    """Calls that may wait at one gateway."""
    ttl: float
    """Seconds after which the pause ends by itself; 600 unless said otherwise."""
    engine: EnginePause
    """Pauses the engines themselves too."""


class ResumeFields(TypedDict, total=False):
    """Which pauses end, and how."""

    backends: Sequence[str]
    all: bool
    flush: bool
    """Has the engines empty their caches first."""
    force: bool
    """Ends it even where an engine refuses to go on."""


class WeightEventFilters(TypedDict, total=False):
    backend: str
    since: datetime | str
    until: datetime | str
    page_size: int
    cursor: str


@dataclass(frozen=True, slots=True)
class GateStatus:
    """How one gateway heeds a pause."""

    gateway_id: str
    acknowledged: bool
    in_flight: int | None
    held: int

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(cls, told)


@dataclass(frozen=True, slots=True)
class EngineAnswer:
    """What an engine that was asked to pause, to go on or to flush has said."""

    backend: str
    url: str
    action: Literal["pause", "resume", "flush"]
    ok: bool
    status: int | None = None
    error: str | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(cls, told)


@dataclass(frozen=True, slots=True)
class Pause:
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
    held: int
    """Calls that wait."""
    gateways: tuple[GateStatus, ...]
    silent: tuple[str, ...]
    """Gateways that nobody has heard of for half a minute, and nobody waits for."""
    engines: tuple[EngineAnswer, ...] = ()

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        backends = told["backends"]
        return known(
            cls,
            told,
            backends=None if backends is None else tuple(backends),
            released=tuple(told["released"]),
            created_at=datetime.fromisoformat(told["created_at"]),
            expires_at=datetime.fromisoformat(told["expires_at"]),
            gateways=each(GateStatus.of, told["gateways"]),
            silent=tuple(told["silent"]),
            engines=each(EngineAnswer.of, told.get("engines")),
        )


@dataclass(frozen=True, slots=True)
class Resumed:
    """What is paused no more, and what still is."""

    released: tuple[str, ...]
    pauses: tuple[Pause, ...]
    engines: tuple[EngineAnswer, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return cls(tuple(told["released"]), each(Pause.of, told["pauses"]), each(EngineAnswer.of, told["engines"]))


@dataclass(frozen=True, slots=True)
class BackendVersion:
    """The weights that a backend has; null where nobody has said."""

    backend: str
    weight_version: str | None
    source: WeightSource | None = None
    changed_at: datetime | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(cls, told, changed_at=instant(told.get("changed_at")))


@dataclass(frozen=True, slots=True)
class WeightVersions:
    weight_version: str | None
    """The one that all backends have; null where they differ, or nobody has said."""
    items: tuple[BackendVersion, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return cls(told["weight_version"], each(BackendVersion.of, told["items"]))


@dataclass(frozen=True, slots=True)
class WeightEvent:
    """From then on a backend had this version."""

    event_id: str
    at: datetime
    backend: str
    weight_version: str
    previous: str | None
    source: WeightSource
    gateway_id: str | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(cls, told, at=datetime.fromisoformat(told["at"]))


class Update:
    """One update of weights: what to send next, and when it has gone wrong. The same for both clients."""

    def __init__(self, version: str, wait: float, fields: Mapping[str, Any]) -> None:
        self.version = version
        self.pause_id = fields.get("pause_id") or f"weights-{uuid4().hex}"
        self.backends: Sequence[str] | None = fields.get("backends")
        self._fields = {**fields, "pause_id": self.pause_id}
        self._engine = self._fields.pop("engine", None)
        self._ttl = float(fields.get("ttl", 600.0))
        self._deadline = time.monotonic() + wait
        self._renewed = time.monotonic()

    def waiting(self) -> dict[str, Any]:
        """The fields of the next call of `pause`: how long it may wait is the rest of the whole wait."""
        self._renewed = time.monotonic()
        left = max(0.0, self._deadline - self._renewed)
        return {**self._fields, "wait": min(left, _LONGEST_WAIT)}

    def engines(self) -> dict[str, Any] | None:
        """Those of one more `pause`, which pauses the engines once the calls have ended; None: they are not to be."""
        return None if self._engine is None else {**self._fields, "engine": self._engine}

    def is_drained(self, pause: Pause) -> bool:
        """False: ask again. Raises NotDrained where the time is up."""
        if pause.drained:
            return True
        if time.monotonic() < self._deadline:
            return False
        if self._engine in ("keep", "abort"):
            return True  # Those that are left are the engines' to keep, or to end.
        raise NotDrained(
            f"{pause.in_flight} calls had not ended in time: wait longer, or let the engines keep them (engine='keep')"
        )

    def check(self, resumed: Resumed) -> None:
        """Raises PauseExpired."""
        if self.pause_id not in resumed.released and time.monotonic() - self._renewed >= self._ttl:
            raise PauseExpired(
                f"the update took longer than the {self._ttl:g} s of its pause (`ttl`), so that calls went on during it"
            )
