"""Who may use `/api`: the administrator's key alone, or without one a person on this very machine.

An agent's key, or a session's, opens nothing here: whoever has an agent's `base_url` cannot administer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.types import Scope

from gateway.keys import KeyRing, is_session_key, keys_in
from gateway.refusals import Forbidden, Unauthorized
from gateway.sessions import Sessions
from gateway.settings import is_loopback

# A proxy on this machine makes everyone's requests come from loopback; these headers give it away.
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class Guard:
    """Lets a request in, or raises Unauthorized or Forbidden. It comes before everything else under `/api`."""

    def __init__(
        self, *, admin_key: str | None, infer_keys: Collection[str], sessions: Sessions, listens_on: str
    ) -> None:
        self._admin = KeyRing([admin_key] if admin_key else [])
        self._infer = KeyRing(infer_keys)
        self._sessions = sessions
        self._listens_on = listens_on

    async def check(self, scope: Scope, headers: Mapping[str, str]) -> None:
        keys = keys_in(headers)
        if any(map(self._admin.has, keys)):
            return
        for key in keys:
            await self._refuse_agents(key)
        if self._admin:
            wrong = "This key is not the administrator's." if keys else "No key was sent."
            raise Unauthorized(f"{wrong} Send the admin key as `authorization: Bearer` or `x-api-key`.")
        if self._infer:
            raise Forbidden(
                "This gateway has keys for agents but none for administration, so /api is closed: set "
                "ROLLOUT_GATEWAY_ADMIN_KEY."
            )
        self._only_this_machine(scope, headers)

    async def _refuse_agents(self, key: str) -> None:
        if self._infer.has(key):
            raise Forbidden("This is an agents' key, which is good for model calls and not for /api.")
        if is_session_key(key) and await self._sessions.of_key(key) is not None:
            raise Forbidden("This is a session's own key, which is good for its model calls and not for /api.")

    def _only_this_machine(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Peer, `Host` and `Origin` all have to be local: a web page may be the one that asks (DNS rebinding)."""
        peer = scope.get("client")
        host = headers.get("host", "")
        if (
            not is_loopback(self._listens_on)
            or peer is None
            or not is_loopback(peer[0])
            or not is_loopback(hostname(host))
            or any(name in headers for name in _FORWARDED)
        ):
            raise Forbidden("Without an admin key /api is open to this machine alone: set ROLLOUT_GATEWAY_ADMIN_KEY.")
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower():
            raise Forbidden(f"A page of {origin[:200]} may not use /api; without an admin key only its own may.")


def hostname(host: str) -> str:
    """The name or address in a `Host` header; empty where there is none."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
