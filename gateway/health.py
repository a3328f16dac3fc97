"""`/healthz` and `/readyz`: whether the process lives, and whether a call would be served.

Not ready is a gateway that stops, can't record, has no backend, or has just failed to reach any of those it has.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec
from starlette.types import Receive, Scope, Send

from gateway.asgi import send_whole
from gateway.backends import Backends
from storage.store import Store

# Balancers ask each few seconds; Kubernetes' slowest common setting is half a minute.
_WATCHED_SECONDS: Final = 60.0


class Notice:
    """That the gateway is about to stop, and whether there is anyone to notice."""

    def __init__(self) -> None:
        self.given = False
        self._asked: float | None = None

    @property
    def is_watched_for(self) -> bool:
        """Somebody asks `/readyz`."""
        return self._asked is not None and time.monotonic() - self._asked < _WATCHED_SECONDS

    def asked(self) -> None:
        self._asked = time.monotonic()


class Health:
    """What stands in the way of the next call."""

    def __init__(self, store: Store, backends: Backends, notice: Notice) -> None:
        self._store = store
        self._backends = backends
        self._notice = notice

    def asked(self) -> list[str]:
        """By whoever sends calls, or not: a stop gives notice to them."""
        self._notice.asked()
        return self.problems()

    def problems(self) -> list[str]:
        problems = ["the gateway is stopping"] if self._notice.given else []
        unable = self._store.unable()
        if unable is not None:
            problems.append(f"nothing can be recorded: {unable}")
        backends = self._backends.present()
        if not backends:
            problems.append("no backend is configured: start with --backend URL, or POST /api/admin/backends")
        elif not any(map(self._backends.is_alive, backends)):
            problems.append("no backend can be reached")
        elif not any(backend.state == "serving" and self._backends.is_alive(backend) for backend in backends):
            problems.append("every backend that can be reached is draining, so no session begins")
        return problems


class Endpoint:
    """One of the two: `problems` says why not, an empty list that all is well."""

    def __init__(self, problems: Callable[[], list[str]]) -> None:
        self._problems = problems

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problems = self._problems()
        body = msgspec.json.encode({"status": "unavailable" if problems else "ok", "problems": problems})
        await send_whole(send, 503 if problems else 200, body, [("content-type", "application/json")])
