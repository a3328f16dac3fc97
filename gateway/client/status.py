"""How a gateway is doing, as frozen values: its calls, its backends, what is wrong, what was changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Literal, Self

from gateway.client.reading import each, known
from gateway.client.values import Backend


@dataclass(frozen=True, slots=True)
class CallCounts:
    """Calls whose agent got an end, those of them whose trace was committed first, and those on their way."""

    answered: int
    recorded: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class GatewayHeard:
    """A gateway of the same database, as its last heartbeat told of it."""

    gateway_id: str
    heartbeat_at: datetime
    spool_depth: int
    spool_oldest_s: float | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(cls, told, heartbeat_at=datetime.fromisoformat(told["heartbeat_at"]))


@dataclass(frozen=True, slots=True)
class FirstToken:
    """How long a backend's streams took to begin: bounds that half of them, and 99 of 100, do not exceed."""

    backend: str
    streams: int
    p50: float
    """Seconds, since the gateway began."""
    p99: float


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that an administrator did, or was not let do."""

    at: datetime
    by: str
    action: str
    outcome: Literal["done", "refused", "failed"]
    target: str | None = None
    status: int | None = None
    """Of the answer."""
    request_id: str | None = None
    gateway_id: str | None = None

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        return known(cls, told, at=datetime.fromisoformat(told["at"]))


@dataclass(frozen=True, slots=True)
class GatewayStatus:
    """How one gateway is doing."""

    gateway_id: str
    version: str
    started_at: datetime
    uptime_seconds: float
    calls: CallCounts
    backends: tuple[Backend, ...]
    store: Mapping[str, Any]
    """The writer's own numbers."""
    settings: Mapping[str, Any]
    gateways: tuple[GatewayHeard, ...] | None = None
    """All that write to its database; null where that can't tell."""
    concerns: tuple[str, ...] = ()
    """What is wrong, a sentence each."""
    first_token: tuple[FirstToken, ...] = ()
    event_loop_lag_p99: float | None = None
    """Seconds."""
    changes: tuple[Action, ...] | None = None
    """What administrators did last; null where its database can't tell."""

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> Self:
        gateways, changes = told.get("gateways"), told.get("changes")
        return known(
            cls,
            told,
            started_at=datetime.fromisoformat(told["started_at"]),
            gateways=None if gateways is None else each(GatewayHeard.of, gateways),
            calls=known(CallCounts, told["calls"]),
            backends=each(Backend.of, told["backends"]),
            concerns=tuple(told.get("concerns", ())),
            first_token=each(partial(known, FirstToken), told.get("first_token")),
            changes=None if changes is None else each(Action.of, changes),
        )
