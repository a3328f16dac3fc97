"""`backends`: which there are and how they do, and what an administrator does with them, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import msgspec

from gateway.commands.errors import CommandFailed
from gateway.commands.remote import Page, Remote, decode
from gateway.commands.screen import Screen
from gateway.commands.table import Column

_PATH: Final = "/api/admin/backends"
_LONGEST_WAIT_S: Final = 30.0


class NotDrained(CommandFailed):
    """Somebody is there still; the drain goes on."""


class BackendRow(msgspec.Struct):
    """What the table shows of a backend."""

    name: str
    url: str
    source: str
    state: str
    health: str
    in_flight: int
    weight: float
    slow: bool = False
    engine: str | None = None
    version: str | None = None
    models: list[str] = []
    aliases: dict[str, str] = {}
    weight_version: str | None = None
    last_error: str | None = None
    open_sessions: int | None = None
    drained: bool = False
    calls: int = 0

    @property
    def health_told(self) -> str:
        return f"{self.health}, slow" if self.slow else self.health

    @property
    def state_told(self) -> str:
        if self.drained:
            return "drained"
        return self.state if self.open_sessions is None else f"{self.state}, {self.open_sessions} sessions open"

    @property
    def engine_told(self) -> str:
        return " ".join(filter(None, (self.engine, self.version)))


@dataclass(frozen=True, slots=True)
class BackendsCommand:
    """A running gateway's backends, and where to show them."""

    remote: Remote
    screen: Screen

    def show(self) -> None:
        body = self.remote.get(_PATH, {})
        if self.screen.as_json:
            self.screen.json(body)
            return
        rows = decode(body, Page[BackendRow]).items
        self.screen.table(
            (
                Column("backend", 0, tuple(row.name for row in rows)),
                Column("health", 1, tuple(row.health_told for row in rows)),
                Column("state", 2, tuple(row.state_told for row in rows)),
                Column("in flight", 3, tuple(str(row.in_flight) for row in rows)),
                Column("weight", 7, tuple(f"{row.weight:g}" for row in rows)),
                Column("engine", 5, tuple(row.engine_told for row in rows)),
                Column("models", 8, tuple(", ".join((*row.models, *row.aliases)) for row in rows)),
                Column("weights", 9, tuple(row.weight_version for row in rows)),
                Column("from", 10, tuple(row.source for row in rows)),
                Column("url", 6, tuple(row.url for row in rows)),
                Column("last error", 4, tuple(row.last_error for row in rows)),
            )
        )

    def add(self, known: Mapping[str, Any]) -> None:
        self._tell(self.remote.send("POST", _PATH, msgspec.json.encode(known)))

    def change(self, name: str, changes: Mapping[str, Any]) -> None:
        self._tell(self.remote.send("PATCH", _path(name), msgspec.json.encode(changes)))

    def probe(self, name: str) -> None:
        self._tell(self.remote.send("POST", f"{_path(name)}/probe"))

    def undrain(self, name: str) -> None:
        self._tell(self.remote.send("POST", f"{_path(name)}/undrain"))

    def remove(self, name: str) -> None:
        self.remote.send("DELETE", _path(name))

    def drain(self, name: str, wait: float) -> None:
        """Raises NotDrained where it is not empty after so many seconds."""
        waits = wait > 0
        while True:
            patience = min(wait, _LONGEST_WAIT_S)
            body = self.remote.send("POST", f"{_path(name)}/drain", filters={"wait": f"{patience:g}"})
            wait -= patience
            row = decode(body, BackendRow)
            if row.drained or wait <= 0:
                break
        self._tell(body)
        if waits and not row.drained:
            raise NotDrained(f"{name} is not empty yet: {row.state_told}, {row.in_flight} calls in flight")

    def _tell(self, body: bytes) -> None:
        if self.screen.as_json:
            self.screen.json(body)
            return
        row = decode(body, BackendRow)
        engine = row.engine or "engine unknown"
        self.screen.line(f"{row.name}: {row.health_told}, {row.state_told}, {engine} at {row.url}")


def _path(name: str) -> str:
    return f"{_PATH}/{quote(name, safe='/')}"
