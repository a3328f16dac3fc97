"""`status`: how a running gateway does, on one screen. What is wrong comes first."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gateway.commands.backends import BackendRow
from gateway.commands.remote import Remote, decode
from gateway.commands.screen import Screen
from gateway.commands.table import Column, printable


class Calls(msgspec.Struct):
    answered: int
    recorded: int
    in_flight: int


class Store(msgspec.Struct):
    queued: int
    committed: int
    spool_depth: int
    last_commit_ms: float | None = None
    oldest_queued_ms: float | None = None


class Latency(msgspec.Struct):
    backend: str
    streams: int
    p50: float
    p99: float


class Change(msgspec.Struct):
    at: str
    by: str
    action: str
    target: str | None = None


class Status(msgspec.Struct):
    """What the screen shows of the answer."""

    gateway_id: str
    version: str
    uptime_seconds: float
    calls: Calls
    store: Store
    backends: list[BackendRow]
    concerns: list[str] = []
    first_token: list[Latency] = []
    changes: list[Change] | None = None


@dataclass(frozen=True, slots=True)
class StatusCommand:
    remote: Remote
    screen: Screen

    def show(self) -> None:
        body = self.remote.get("/api/admin/status", {})
        if self.screen.as_json:
            self.screen.json(body)
            return
        told = decode(body, Status)
        for concern in told.concerns:
            self.screen.line(f"! {printable(concern)}")
        if not told.concerns:
            self.screen.line("all is well")
        self._facts(told)
        self._backends(told)
        for change in told.changes or ():
            words = f"{change.at[:19].replace('T', ' ')}  {change.by}  {change.action} {change.target or ''}"
            self.screen.line(printable(words.rstrip()))

    def _facts(self, told: Status) -> None:
        calls, store = told.calls, told.store
        self.screen.line(f"gateway  {told.version}, {told.gateway_id}, up for {told.uptime_seconds:.0f} s")
        self.screen.line(f"calls    {calls.in_flight} in flight, {calls.answered} answered, {calls.recorded} recorded")
        behind = (store.oldest_queued_ms or 0.0) / 1e3
        commit = f", last commit {store.last_commit_ms:.1f} ms" if store.last_commit_ms is not None else ""
        self.screen.line(
            f"records  {store.committed} in the database, {store.queued} queued ({behind:.1f} s), "
            f"{store.spool_depth} in the spool{commit}"
        )

    def _backends(self, told: Status) -> None:
        rows = told.backends
        latency = {each.backend: f"{each.p50:g} / {each.p99:g}" for each in told.first_token}
        self.screen.table(
            (
                Column("backend", 0, tuple(row.name for row in rows)),
                Column("health", 1, tuple(row.health_told for row in rows)),
                Column("state", 2, tuple(row.state_told for row in rows)),
                Column("in flight", 3, tuple(str(row.in_flight) for row in rows)),
                Column("calls", 4, tuple(str(row.calls) for row in rows)),
                Column("first token p50/p99 s", 5, tuple(latency.get(row.name, "") for row in rows)),
                Column("engine", 6, tuple(row.engine_told for row in rows)),
                Column("weights", 7, tuple(row.weight_version for row in rows)),
                Column("last error", 8, tuple(row.last_error for row in rows)),
            )
        )
