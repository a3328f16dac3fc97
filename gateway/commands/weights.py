"""`pause`, `resume` and `weight-version`, by a running gateway's API."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from gateway.api.weights import BackendVersion, EventList, WeightVersions
from gateway.commands.errors import CommandFailed
from gateway.commands.remote import Remote, decode
from gateway.commands.screen import Screen
from gateway.commands.table import Column
from gateway.weights.control import PauseStatus, Resumed

_PAUSE: Final = "/api/admin/pause"
_RESUME: Final = "/api/admin/resume"
_VERSION: Final = "/api/admin/weight-version"
_EVENTS: Final = "/api/admin/weight-events"
# Well below the time after which a connection is given up.
_AT_ONCE_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Weights:
    remote: Remote
    screen: Screen

    def pause(self, wanted: Mapping[str, Any], wait: float) -> None:
        """Raises CommandFailed where calls are still in flight after so many seconds; the pause stands."""
        deadline = time.monotonic() + wait
        engine = wanted.get("engine")
        asked = {name: value for name, value in wanted.items() if name != "engine"}
        while True:
            left = max(0.0, deadline - time.monotonic())
            body, status = self._paused({**asked, "wait": min(left, _AT_ONCE_S)})
            asked["pause_id"] = status.pause_id
            if status.drained or left <= _AT_ONCE_S:
                break
        if engine is not None:
            body, status = self._paused({**asked, "engine": engine})
        if self.screen.as_json:
            self.screen.json(body)
        else:
            self.screen.line(status.pause_id)
            self.screen.note(_said(status))
        if wait and not status.drained and engine is None:
            raise CommandFailed(f"{status.in_flight} calls are still in flight after {wait:g} s; the pause stands")

    def resume(self, which: Mapping[str, Any]) -> None:
        body = self.remote.post(_RESUME, msgspec.json.encode(which))
        if self.screen.as_json:
            self.screen.json(body)
            return
        resumed = decode(body, Resumed)
        for pause_id in resumed.released:
            self.screen.line(pause_id)
        left = len(resumed.pauses)
        if not resumed.released and not left:
            self.screen.note("Nothing was paused.")
        elif left:
            self.screen.note(f"{left} more {'pause stands' if left == 1 else 'pauses stand'}.")

    def list_pauses(self) -> None:
        body = self.remote.get(_PAUSE, {})
        if self.screen.as_json:
            self.screen.json(body)
            return
        pauses = decode(body, _Pauses).items
        self.screen.table(
            [
                Column("pause_id", 0, tuple(pause.pause_id for pause in pauses)),
                Column("backends", 1, tuple(_names(pause.backends) for pause in pauses)),
                Column("in_flight", 2, tuple(str(pause.in_flight) for pause in pauses)),
                Column("held", 2, tuple(str(pause.held) for pause in pauses)),
                Column("owner", 3, tuple(pause.owner for pause in pauses)),
                Column("expires_at", 4, tuple(pause.expires_at.isoformat(timespec="seconds") for pause in pauses)),
            ]
        )

    def set_version(self, version: str, backends: Sequence[str]) -> None:
        asked = {"weight_version": version} | ({"backends": list(backends)} if backends else {})
        self._show(self.remote.post(_VERSION, msgspec.json.encode(asked)))

    def show_versions(self) -> None:
        self._show(self.remote.get(_VERSION, {}))

    def show_events(self, limit: int) -> None:
        body = self.remote.get(_EVENTS, {"limit": limit})
        if self.screen.as_json:
            self.screen.json(body)
            return
        page = decode(body, EventList)
        self.screen.table(
            [
                Column("at", 0, tuple(event.at.isoformat(timespec="milliseconds") for event in page.items)),
                Column("backend", 1, tuple(event.backend for event in page.items)),
                Column("weight_version", 0, tuple(event.weight_version for event in page.items)),
                Column("previous", 3, tuple(event.previous for event in page.items)),
                Column("source", 2, tuple(event.source for event in page.items)),
            ]
        )
        if page.next is not None:
            self.screen.note(f"More than {limit}: --limit, or GET {_EVENTS} with since= and cursor=.")

    def _paused(self, wanted: Mapping[str, Any]) -> tuple[bytes, PauseStatus]:
        body = self.remote.post(_PAUSE, msgspec.json.encode(wanted))
        return body, decode(body, PauseStatus)

    def _show(self, body: bytes) -> None:
        if self.screen.as_json:
            self.screen.json(body)
            return
        items: tuple[BackendVersion, ...] = decode(body, WeightVersions).items
        self.screen.table(
            [
                Column("backend", 0, tuple(item.backend for item in items)),
                Column("weight_version", 0, tuple(item.weight_version for item in items)),
                Column("source", 1, tuple(item.source for item in items)),
                Column(
                    "changed_at",
                    2,
                    tuple(item.changed_at.isoformat(timespec="seconds") if item.changed_at else None for item in items),
                ),
            ]
        )


class _Pauses(msgspec.Struct):
    items: tuple[PauseStatus, ...]


def _names(backends: tuple[str, ...] | None) -> str:
    return "all" if backends is None else ", ".join(backends)


def _said(status: PauseStatus) -> str:
    state = "no call is in flight" if status.drained else f"{status.in_flight} calls are in flight"
    silent = f"; not heard of: {', '.join(status.silent)}" if status.silent else ""
    return f"Paused until {status.expires_at.isoformat(timespec='seconds')}: {state}{silent}."
