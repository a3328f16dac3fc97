"""Scripted engines whose answers are changed on their way out: lies told in good JSON, and bytes that are no good."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from adapters.scripts.asked import Asked, BadRequest
from adapters.scripts.replies import Reply
from adapters.scripts.script import Answer, EngineScript, Frame, Stamp
from adapters.scripts.speech import Speech
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import Running, gateway

Lie = Callable[[Any], None]
"""Changes a whole answer or one chunk, opened, in place."""
Garble = Callable[[bytes], bytes]
"""Changes the bytes of a whole body."""

_DATA = b"data: "


@dataclass(frozen=True, slots=True)
class Twisted:
    """An engine's script that answers as it does, but for what `twist` makes of the body's frames."""

    engine: ClassVar[str] = "twisted"
    tells_ids: ClassVar[bool] = True
    counts_at: ClassVar[str | None] = None
    script: EngineScript
    twist: Callable[[Sequence[Frame]], Sequence[Frame]]

    @property
    def model(self) -> str:
        return self.script.model

    def answer(self, asked: Asked, speeches: Sequence[Speech], stamp: Stamp) -> Answer:
        answer = self.script.answer(asked, speeches, stamp)
        return Answer(answer.status, tuple(self.twist(answer.frames)), answer.content_type)

    def unreadable(self, error: BadRequest) -> Answer:
        return self.script.unreadable(error)

    def page(self, path: str) -> Answer | None:
        return self.script.page(path)

    def missing(self, method: str, path: str) -> Answer:
        return self.script.missing(method, path)


def lying(script: EngineScript, lie: Lie) -> EngineScript:
    """The same engine, each of whose answers or chunks goes through `lie`."""
    return Twisted(script, lambda frames: [Frame(lied(frame.data, lie), frame.told) for frame in frames])


def garbled(script: EngineScript, garble: Garble) -> EngineScript:
    """The same engine, whose bodies go through `garble` and leave in one piece."""

    def twist(frames: Sequence[Frame]) -> Sequence[Frame]:
        told = tuple(pair for frame in frames for pair in frame.told)
        return [Frame(garble(b"".join(frame.data for frame in frames)), told)]

    return Twisted(script, twist)


def lied(data: bytes, lie: Lie) -> bytes:
    streamed = data.startswith(_DATA)
    text = data.removeprefix(_DATA).rstrip(b"\n")
    if text == b"[DONE]":
        return data
    answer = msgspec.json.decode(text)
    lie(answer)
    text = msgspec.json.encode(answer)
    return _DATA + text + b"\n\n" if streamed else text


@dataclass(frozen=True, slots=True)
class Pair:
    """A gateway before one server, which tells something else in each test of a table."""

    server: ScriptedServer
    honest: EngineScript
    gateway: Running


@asynccontextmanager
async def twistable(folder: Path, reply: Reply) -> AsyncIterator[Pair]:
    server = ScriptedServer("vllm", reply=reply)
    async with running(server) as backend, gateway(folder, backend) as served:
        yield Pair(server, server.script, served)
