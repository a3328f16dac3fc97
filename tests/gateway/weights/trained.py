"""Servers whose weights a test changes, that say in their text which ones sampled it, and that can be paused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from starlette.types import Receive, Scope, Send

from adapters.scripts.asked import Asked
from adapters.scripts.speech import Speech, say
from gateway.asgi import send_whole
from gateway.scripted import ScriptedServer
from gateway.scripted.call import Call, received
from tests.gateway import harness
from tests.gateway.harness import Running

CONTROL = ("/pause", "/resume", "/reset_prefix_cache", "/pause_generation", "/continue_generation", "/flush_cache")

# What an engine is has to be known before it is asked anything, however busy this machine is.
gateway = partial(harness.gateway, detect_timeout=20.0)


class Trained(ScriptedServer):
    """An engine with a policy's weights. Asked to pause, it does as `refusal` says; and it writes that down."""

    def __init__(self, engine: str = "vllm", *, weights: str = "v1", tells: bool = False, **options: Any) -> None:
        """`tells`: the engine itself knows the version, and says it of its answers where it can."""
        super().__init__(engine, reply=self._reply, **options)
        self.weights = weights
        self.tells = tells
        self.refusal: int | None = None
        self.control: list[Call] = []
        self.stalled = 0
        """Calls that it has and does not answer yet."""
        self._free: asyncio.Event | None = None
        self.load(weights)

    def load(self, weights: str) -> None:
        self.weights = weights
        if self.tells:
            self.script = replace(self.script, weight_version=weights)  # type: ignore[type-var]

    def stall(self) -> None:
        """It answers nothing until `go_on`."""
        self._free = asyncio.Event()

    def go_on(self) -> None:
        assert self._free is not None
        self._free.set()
        self._free = None

    def _reply(self, asked: Asked) -> Sequence[Speech]:
        return [say(f"by {self.weights}")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "POST" and (scope["path"] in CONTROL or scope["path"].startswith("/engine/")):
            self.control.append(await received(scope, receive))
            await send_whole(send, self.refusal or 200, b'{"error":"not now"}' if self.refusal else b"{}", [])
            return
        if self._free is not None and scope["method"] == "POST":
            self.stalled += 1
            await self._free.wait()
        await super().__call__(scope, receive, send)


@dataclass
class Agents:
    """Agents that call for as long as they are let, each in a session of its own."""

    gateway: Running
    count: int
    answers: list[tuple[str, str]] = field(default_factory=list)
    """`(trace id, text)` of each call."""
    failures: list[str] = field(default_factory=list)
    _stopped: bool = False
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def __aenter__(self) -> Agents:
        self._tasks = [asyncio.create_task(self._work(number)) for number in range(self.count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopped = True
        await asyncio.gather(*self._tasks)

    async def more(self, calls: int) -> None:
        """Returns when so many more calls have ended."""
        wanted = len(self.answers) + calls
        async with asyncio.timeout(30):
            while len(self.answers) < wanted:
                await asyncio.sleep(0.01)

    async def _work(self, number: int) -> None:
        turn = 0
        while not self._stopped:
            turn += 1
            answer = await self.gateway.chat(session=f"agent-{number}", stream=turn % 2 == 0)
            if answer.status_code != 200 or b"error" in answer.content:
                self.failures.append(f"{answer.status_code} {answer.text}")
                continue
            trace = await self.gateway.trace(answer)
            self.answers.append((trace["weight_version"], trace["choices"][0]["text"]))


async def post(gateway: Running, path: str, **fields: Any) -> Any:
    """What an administrator's call is answered with."""
    answer = await gateway.agent.post(f"/api/admin/{path}", json=fields)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def held(gateway: Running, calls: int, seconds: float = 10.0) -> None:
    """Returns when so many calls wait."""
    deadline = time.monotonic() + seconds
    while True:
        told = (await gateway.agent.get("/api/admin/pause")).json()["items"]
        if sum(pause["held"] for pause in told) >= calls:
            return
        assert time.monotonic() < deadline, told
        await asyncio.sleep(0.02)
