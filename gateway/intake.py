"""Request bodies of agents as they are taken in: each under its limit and in time, all of them under one budget.

What is counted is what has come, not what was announced: a caller that announces much and sends little takes nothing
from others. A call's bytes are counted until it ends, for as long they are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from starlette.types import Receive

from gateway.asgi import BodyTooLarge, read_body
from gateway.refusals import Late, TooLarge, TooManyBytes, UnsupportedEncoding

# A body that is no larger finds room where large ones no longer do.
_SMALL: Final = 1 << 20
_SHARE_OF_LARGE: Final = 3 / 4


@dataclass(frozen=True, slots=True)
class IntakeSettings:
    """Sizes in bytes, times in seconds."""

    max_body_bytes: int
    max_bodies_bytes: int
    receive_timeout: float


class Intake:
    def __init__(self, settings: IntakeSettings) -> None:
        self._settings = settings
        self.held = 0
        """Bytes of all bodies now."""

    async def read(self, receive: Receive, headers: Mapping[str, str]) -> bytes:
        """A request's body, for the caller to `release`. Raises Refusal or ClientGone."""
        if headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise UnsupportedEncoding("Send the request body without a Content-Encoding.")
        settings, share = self._settings, _Share(self)
        try:
            return await read_body(
                receive, headers, settings.max_body_bytes, seconds=settings.receive_timeout, take=share.take
            )
        except BaseException as exc:
            self.release(share.size)
            if isinstance(exc, BodyTooLarge):
                words = f"The request body is larger than {settings.max_body_bytes} bytes (`max_body_bytes`)."
                raise TooLarge(words) from exc
            if isinstance(exc, TimeoutError):
                raise Late("The request body took too long to arrive (`receive_timeout`).") from exc
            raise

    def release(self, size: int) -> None:
        self.held -= size

    def room_for(self, size: int) -> int:
        """How many bytes more a body of this size may have."""
        most = self._settings.max_bodies_bytes
        return int((most if size <= _SMALL else most * _SHARE_OF_LARGE) - self.held)


class _Share:
    """What one body has of the budget."""

    __slots__ = ("_intake", "size")

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.size = 0

    def take(self, size: int) -> None:
        """Raises TooManyBytes."""
        if size > self._intake.room_for(self.size + size):
            raise TooManyBytes("This gateway holds as many bytes of requests as it may (`max_bodies_bytes`).")
        self.size += size
        self._intake.held += size
