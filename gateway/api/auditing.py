"""Every change that needs the scope `admin` is written down before its caller has the answer: no handler forgets it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Final, Protocol

from fastapi import Request
from fastapi.routing import APIRoute
from starlette.types import Scope

from gateway.api.scoped import CALLER, scope_of
from storage.audit import Action, Outcome
from storage.errors import StorageError

logger = logging.getLogger(__name__)

_TARGET: Final = "rollout_gateway.target"
_READING: Final = ("GET", "HEAD")


class Log(Protocol):
    """What this module needs of the store."""

    def add(self, action: Action) -> Awaitable[None]: ...


class Auditor:
    def __init__(self, log: Log, gateway_id: str) -> None:
        self._log = log
        self._gateway_id = gateway_id

    async def note(self, scope: Scope, status: int, request_id: str) -> None:
        """A request that has come to this status. Where that can't be written down the log says it instead."""
        route = scope.get("route")
        if scope["method"] in _READING or not isinstance(route, APIRoute) or scope_of(route) != "admin":
            return
        caller = scope[CALLER]
        if "admin" not in caller.scopes:
            return  # It was turned away at the door, as often as it liked to knock.
        action = Action(
            at=datetime.now(UTC),
            by=caller.by,
            action=f"{scope['method']} /api{route.path_format}",
            target=scope.get(_TARGET) or next(iter(scope["path_params"].values()), None),
            outcome=_outcome(status),
            status=status,
            request_id=request_id,
            gateway_id=self._gateway_id,
        )
        try:
            await self._log.add(action)
        except StorageError as exc:
            logger.error("this is not in the audit log (%s): %s", exc, action)


def name_target(request: Request, target: str) -> None:
    """What a request is about, where its path does not say it."""
    request.scope[_TARGET] = target


def _outcome(status: int) -> Outcome:
    if status < 400:
        return "done"
    return "refused" if status < 500 else "failed"
