"""A scripted inference server: an ASGI app that answers as one engine does, without a model.

It keeps a ledger of every request that it got, byte for byte, and of every token that it told; and it does faults
on command.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import Receive, Scope, Send

from adapters.request import Endpoint
from adapters.scripts import SCRIPTS
from adapters.scripts.asked import BadRequest, read
from adapters.scripts.replies import Reply, small_talk
from adapters.scripts.script import Answer, Stamp, said, whole
from gateway.scripted.call import Call, received
from gateway.scripted.faults import HEALTHY, Fault
from gateway.scripted.loopback import listening
from gateway.scripted.sending import Sending

_CREATED: Final = 1795253488
_ENDPOINTS: Final[Mapping[str, Endpoint]] = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}


class ScriptedServer:
    """One backend. `version` and `variant` mean what they mean to the engine's own script."""

    def __init__(
        self,
        engine: str,
        *,
        version: str | None = None,
        variant: str | None = None,
        model: str = "scripted",
        reply: Reply = small_talk,
        tokens_per_chunk: int = 1,
        fault: Fault = HEALTHY,
        api_key: str | None = None,
    ) -> None:
        given = {"version": version, "variant": variant}
        options = {name: value for name, value in given.items() if value is not None}
        self.script = SCRIPTS[engine](model=model, tokens_per_chunk=tokens_per_chunk, **options)
        self.engine = engine
        self.reply = reply
        self.fault = fault
        """Of every inference call that has none of its own."""
        self.faults: deque[Fault] = deque()
        """Of the next inference calls, one each."""
        self.api_key = api_key
        self.requests: list[Call] = []
        """All of them, in the order of their arrival."""

    @property
    def calls(self) -> list[Call]:
        """The inference calls among the requests."""
        return [call for call in self.requests if call.route in _ENDPOINTS and call.method == "POST"]

    async def settled(self, *, timeout: float = 20.0) -> None:  # noqa: ASYNC109 - for tests that only wait
        """Returns when no inference call is open any more. Raises TimeoutError."""
        async with asyncio.timeout(timeout):
            for call in self.calls:
                await call.ended.wait()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = await received(scope, receive)
        self.requests.append(call)
        answer, fault = self._answer(call)
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await Sending(call, answer, fault, scope, send, gone).run()
        finally:
            if call.finished is None:
                call.gone = time.monotonic()
            call.ended.set()
            gone.cancel()

    def _answer(self, call: Call) -> tuple[Answer, Fault]:
        if self.api_key is not None and call.header("authorization") != f"Bearer {self.api_key}":
            return whole({"error": {"message": "Invalid API key", "code": 401}}, status=401), HEALTHY
        if call.route in _ENDPOINTS and call.method == "POST":
            return self._inference(call, _ENDPOINTS[call.route]), self.faults.popleft() if self.faults else self.fault
        if call.route == self.script.counts_at and call.method == "POST":
            return self._counted(call), HEALTHY
        page = self.script.page(call.route) if call.method == "GET" else None
        return page or self.script.missing(call.method, call.route), HEALTHY

    def _inference(self, call: Call, endpoint: Endpoint) -> Answer:
        try:
            call.asked = read(endpoint, call.body, dict(call.headers))
        except BadRequest as exc:
            return self.script.unreadable(exc)
        call.speeches = said(call.asked, self.reply(call.asked))
        return self.script.answer(call.asked, call.speeches, Stamp(f"{len(self.requests):032x}", _CREATED))

    def _counted(self, call: Call) -> Answer:
        try:
            (prompt,) = read("chat", call.body, {}).prompts
        except BadRequest as exc:
            return self.script.unreadable(exc)
        return whole({"count": len(prompt), "max_model_len": 32768, "tokens": prompt})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def running(server: ScriptedServer, *, port: int = 0) -> AsyncIterator[str]:
    """The server's URL while it runs on a loopback port of this process."""
    async with listening(server, port=port) as url:
        yield url
