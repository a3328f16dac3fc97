"""One call of the gateway's API without its I/O: what to send, how to read the answer, whether to try again.

Both clients send the same calls; they differ only in how they wait.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import httpx

from gateway.client.errors import Unreachable, UnreadableAnswer, refusal

T = TypeVar("T")

_PAUSES: Final = (0.2, 0.8, 3.2)
"""Seconds before the second, third and fourth try."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, and what its answer means."""

    method: str
    path: str
    read: Callable[[bytes], T]
    params: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    repeatable: bool = False
    """Whether sending it twice comes to the same as sending it once."""
    wait: float = 0.0
    """Seconds that the gateway may take before it answers, because it was asked to wait."""

    def arguments(self, timeout: float) -> dict[str, Any]:
        """What httpx is given; `timeout` is how long nothing may come, in seconds."""
        return {
            "method": self.method,
            "url": self.path,
            "params": dict(self.params),
            "json": self.body,
            "timeout": httpx.Timeout(timeout, read=timeout + self.wait),
        }


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def retry(self, call: Call[Any]) -> bool:
        return call.repeatable and self.status == 503 and self.headers.get("x-should-retry") == "true"

    def value(self, call: Call[T]) -> T:
        if not 200 <= self.status < 300:
            raise refusal(self.status, self.body)
        try:
            return call.read(self.body)
        except (LookupError, TypeError, ValueError, OverflowError) as exc:
            detail = (
                f"The answer to {call.method} {call.path} is not a rollout-gateway's that this client knows: {exc!r}"
            )
            raise UnreadableAnswer(detail, status=self.status) from exc


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """Nothing came back, or not all of it."""

    error: httpx.TransportError

    def retry(self, call: Call[Any]) -> bool:
        # Without a connection nothing was sent, so that any call can be sent again.
        return call.repeatable or isinstance(self.error, httpx.ConnectError | httpx.ConnectTimeout)

    def value(self, call: Call[T]) -> T:
        raise Unreachable(f"{call.method} {call.path} got no answer: {said(self.error)}") from self.error


Outcome = Answer | NoAnswer


def pauses(retries: int) -> Iterator[float]:
    """How long to wait after each try that may be followed by another; not the same for all that fail at once."""
    for number in range(retries):
        yield _PAUSES[min(number, len(_PAUSES) - 1)] * random.uniform(0.5, 1.0)


def said(error: httpx.TransportError) -> str:
    """An error's words, which httpx leaves empty for some."""
    return str(error) or type(error).__name__
