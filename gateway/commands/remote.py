"""A running gateway's `/api`, asked over HTTP; why it gives no answer is a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

import httpx
import msgspec

from gateway.commands.errors import CommandFailed

Answer = TypeVar("Answer")
Item = TypeVar("Item")
Filters: TypeAlias = Mapping[str, str | int | Sequence[str]]

_PATIENCE_S: Final = 60


class CannotRead(CommandFailed):
    """The gateway gave no answer that can be shown; the message says why."""


class Unreachable(CannotRead):
    """Nobody answers there, or not now."""


class BrokenOff(CannotRead):
    """The connection ended in the middle of an answer, which may be whole at the next try."""


class Page(msgspec.Struct, Generic[Item]):
    """A part of a list, as every list of the API is told."""

    items: list[Item]
    next: str | None = None
    complete: bool = True


class _Problem(msgspec.Struct):
    """RFC 9457, as far as it is told."""

    title: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Remote:
    """Where the gateway is, and the key for it."""

    url: str
    key: str | None
    transport: httpx.BaseTransport | None = None

    def get(self, path: str, filters: Filters) -> bytes:
        """Raises CannotRead."""
        with self.stream(path, filters) as answer:
            return b"".join(chunks(answer))

    def read(self, path: str, filters: Filters, shape: type[Answer]) -> Answer:
        """Raises CannotRead."""
        return decode(self.get(path, filters), shape)

    def post(self, path: str, body: bytes) -> bytes:
        """Of JSON, both ways. Raises CannotRead."""
        return self.send("POST", path, body)

    def send(self, method: str, path: str, body: bytes | None = None, filters: Filters | None = None) -> bytes:
        """The body of its success, if that has one. Raises CannotRead."""
        with self._asked(method, path, filters or {}, body) as answer:
            return b"".join(chunks(answer))

    def delete(self, path: str) -> None:
        """Raises CannotRead."""
        with self._asked("DELETE", path, {}, None):
            pass

    def stream(self, path: str, filters: Filters) -> AbstractContextManager[httpx.Response]:
        """An answer whose body is still to come: read it by `chunks`. Raises CannotRead."""
        return self._asked("GET", path, filters, None)

    @contextmanager
    def _asked(self, method: str, path: str, filters: Filters, body: bytes | None) -> Iterator[httpx.Response]:
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        headers |= {} if body is None else {"content-type": "application/json"}
        try:
            with (
                httpx.Client(base_url=self.url, headers=headers, transport=self.transport, trust_env=False) as client,
                client.stream(method, path, params=dict(filters), content=body, timeout=_PATIENCE_S) as answer,
            ):
                if not answer.is_success:
                    answer.read()
                    self._refuse(path, answer)
                yield answer
        except httpx.TransportError as exc:
            raise Unreachable(f"no gateway answers at {self.url}: {exc}; --url says where it is") from exc
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
            raise CannotRead(f"{self.url} is no URL of a gateway: {exc}") from exc

    def _refuse(self, path: str, answer: httpx.Response) -> None:
        if answer.status_code == 401:
            raise CannotRead(f"{_reason(answer.content)} Here: by ROLLOUT_GATEWAY_API_KEY in the environment.")
        raise CannotRead(f"{self.url}{path} answers {answer.status_code}: {_reason(answer.content)}")


def chunks(answer: httpx.Response) -> Iterator[bytes]:
    """The body as it comes. Raises BrokenOff where it ends before its end."""
    try:
        yield from answer.iter_bytes()
    except httpx.TransportError as exc:
        raise BrokenOff(f"the answer of {answer.url.host} broke off: {exc}; the gateway's log may say why") from exc


def decode(body: bytes, shape: type[Answer]) -> Answer:
    """Raises CannotRead."""
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.DecodeError as exc:
        raise CannotRead(f"this is not an answer of a rollout-gateway: {exc}") from exc


def _reason(body: bytes) -> str:
    try:
        problem = msgspec.json.decode(body, type=_Problem)
    except msgspec.DecodeError:
        return "not an answer of a rollout-gateway"
    return problem.detail or problem.title
