"""The load client: speaks HTTP on a socket of its own and keeps every byte that it got, and how each answer ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import httptools
import msgspec

from tests.faults.records import Heard
from tests.faults.said import said

Leaves = Callable[[Heard], bool]
"""Asked after each piece that came: whether the agent closes the connection now."""
Waits = Callable[[Heard], Awaitable[None]]
"""Called before the next piece is read, which waits for it."""


class _Answer:
    """What httptools tells of one answer."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._heard.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._heard.body += body

    def on_message_complete(self) -> None:
        self.complete = True


@dataclass(slots=True)
class Wire:
    """A connection to one gateway, kept while answers end well."""

    port: int
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None

    async def call(
        self, heard: Heard, path: str, body: bytes, headers: dict[str, str], leaves: Leaves, waits: Waits, limit: float
    ) -> None:
        """Fills in what comes of it. Never raises for what a server or the network does."""
        heard.started = time.monotonic()
        try:
            async with asyncio.timeout(limit):
                await self._call(heard, path, body, headers, leaves, waits)
        except TimeoutError:
            heard.end = "left"
        except (OSError, httptools.HttpParserError, EOFError):
            heard.end = "broken"
        finally:
            heard.ended = time.monotonic()
            if heard.end != "whole" or heard.headers.get("connection") == "close":
                self.close()

    async def _call(
        self, heard: Heard, path: str, body: bytes, headers: dict[str, str], leaves: Leaves, waits: Waits
    ) -> None:
        if self.writer is None or self.writer.is_closing() or (self.reader is not None and self.reader.at_eof()):
            self.close()
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        assert self.reader is not None
        told = {"host": "gateway", "content-type": "application/json", "content-length": str(len(body)), **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        self.writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        answer = _Answer(heard)
        parser = httptools.HttpResponseParser(answer)
        if leaves(heard):
            heard.end = "left"
            return
        while not answer.complete:
            await waits(heard)
            data = await self.reader.read(1 << 16)
            if not data:
                raise EOFError
            parser.feed_data(data)
            with suppress(AttributeError):
                heard.status = parser.get_status_code() or None
            if not answer.complete and leaves(heard):
                heard.end = "left"
                return
        heard.end = "whole"

    def close(self) -> None:
        if self.writer is not None:
            self.writer.transport.abort()
        self.reader = self.writer = None


def stays(heard: Heard) -> bool:
    return False


async def reads_on(heard: Heard) -> None:
    return


@dataclass(slots=True)
class Agent:
    """One rollout: asks again and again, with all that was said in its messages."""

    session: str
    ports: Sequence[int]
    """Of the gateways; its calls go round them."""
    messages: list[msgspec.Raw] = field(default_factory=list)
    continues: int | None = None
    wires: dict[int, Wire] = field(default_factory=dict)

    async def call(
        self,
        number: int,
        *,
        gateway: int = 0,
        stream: bool = True,
        leaves: Leaves = stays,
        waits: Waits = reads_on,
        limit: float = 60.0,
        headers: dict[str, str] | None = None,
        **fields: object,
    ) -> Heard:
        """An answer that was told to its end becomes history; the question of another is taken back."""
        heard = Heard(number, self.session, self.continues, gateway, body=bytearray(), stream=stream)
        asked = msgspec.Raw(b'{"role":"user","content":"%d"}' % number)
        body = msgspec.json.encode(
            {"model": "scripted", "messages": [*self.messages, asked], "stream": stream, **fields}
        )
        wire = self.wires.setdefault(gateway, Wire(self.ports[gateway]))
        wire.port = self.ports[gateway]
        path = f"/sessions/{self.session}/v1/chat/completions"
        await wire.call(heard, path, body, {"x-request-id": str(number), **(headers or {})}, leaves, waits, limit)
        with suppress(msgspec.DecodeError):
            told = said(heard)
            if told.finished and told.error is None:
                answer = msgspec.json.encode({"role": "assistant", "content": told.text})
                self.messages += [asked, msgspec.Raw(answer)]
                self.continues = number
        return heard

    def close(self) -> None:
        for wire in self.wires.values():
            wire.close()
