"""Who asks at `/api`: the holder of a key, or without any key a person on this very machine.

An agent's key, or a session's, opens nothing here: whoever has an agent's `base_url` cannot administer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from starlette.types import Scope

from gateway.keys import API_SCOPES, Caller, Callers, is_session_key, keys_in
from gateway.refusals import Forbidden, Unauthorized
from gateway.sessions import Sessions
from gateway.settings import is_loopback
from storage.scopes import SCOPES

LOCAL: Final = Caller("local", frozenset(SCOPES))
"""Whoever sits at this machine, while there are no keys."""
# A proxy on this machine makes everyone's requests come from loopback; these headers give it away.
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


class Guard:
    """Tells who asks, or raises Unauthorized or Forbidden. It comes before everything else under `/api`."""

    def __init__(self, *, callers: Callers, sessions: Sessions, listens_on: Sequence[str]) -> None:
        self._callers = callers
        self._sessions = sessions
        self._listens_on = listens_on

    async def caller(self, scope: Scope, headers: Mapping[str, str]) -> Caller:
        keys = keys_in(headers)
        found = [caller for key in keys if (caller := await self._callers.find(key)) is not None]
        for caller in found:
            if caller.scopes & API_SCOPES:
                return caller
        if found:
            raise Forbidden("This is an agents' key, which is good for model calls and not for /api.")
        for key in filter(is_session_key, keys):
            if await self._sessions.of_key(key) is not None:
                raise Forbidden("This is a session's own key, which is good for its model calls and not for /api.")
        ring = self._callers.ring
        if ring.opens_api:
            wrong = "This key is not one of this gateway's, or is over." if keys else "No key was sent."
            raise Unauthorized(f"{wrong} Send one as `authorization: Bearer` or `x-api-key`.")
        if ring.needs_keys:
            raise Forbidden(
                "This gateway has no key for administration, so /api is closed: set ROLLOUT_GATEWAY_ADMIN_KEY, or make "
                "one with `rollout-gateway keys create --database`."
            )
        self._only_this_machine(scope, headers)
        return LOCAL

    def _only_this_machine(self, scope: Scope, headers: Mapping[str, str]) -> None:
        """Peer, `Host` and `Origin` all have to be local: a web page may be the one that asks (DNS rebinding)."""
        peer = scope.get("client")
        host = headers.get("host", "")
        if (
            not all(map(is_loopback, self._listens_on))
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
