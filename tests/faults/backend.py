"""A scripted inference server whose every token is written down before it leaves, in the shape of its engine.

What an agent asks is the number of its call, and what is to happen to the answer stands in `orders` under that number.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from adapters.request import Endpoint
from adapters.scripts import SCRIPTS
from adapters.scripts.asked import read
from adapters.scripts.script import Answer, EngineScript, Frame, Stamp
from adapters.scripts.template import Message as ChatMessage
from gateway.scripted import HEALTHY, Call, Fault, listening
from gateway.scripted.call import received
from gateway.scripted.sending import Sending
from tests.faults import canary
from tests.faults.records import Emission
from tests.gateway.twisted import lied

TOKENS: Final = 6
_ENDPOINTS: Final[Mapping[str, Endpoint]] = {"/v1/chat/completions": "chat", "/v1/completions": "completions"}
Spans = tuple[tuple[str, int, int], ...]
Twist = Callable[[Sequence[Frame]], Sequence[Frame]]
"""Makes other frames of an answer's."""


@dataclass(frozen=True, slots=True)
class Order:
    """What becomes of one call."""

    fault: Fault = HEALTHY
    tokens: int = TOKENS
    twist: Twist | None = None
    sound: bool = True
    """What is made of the answer by `twist` still says the same."""
    changes_at: int | None = None
    """Before this token the weights change: those that the engine has by then sample the rest."""
    padding: int = 0
    """Characters more a token."""
    once: bool = False
    """A second try of the same call is answered as if nothing were."""


@dataclass(slots=True)
class Engine:
    """One backend. Several of a run share their `emissions` and `orders`."""

    name: str = "vllm"
    version: str | None = None
    weights: str = "default"
    fault: Fault = HEALTHY
    """Of calls that have no order of their own."""
    backend: str = ""
    """What the gateway calls it."""
    administered: bool = False
    """Its weights are known to the gateway by an administrator's word, also where the engine does not tell them."""
    port: int = 0
    """Where it listens, once it does."""
    orders: dict[int, Order] = field(default_factory=dict)
    emissions: list[Emission] = field(default_factory=list)
    requests: list[Call] = field(default_factory=list)
    keep_requests: bool = False
    """Whether every request is kept in `requests`, model call or not."""
    serials: count[int] = field(default_factory=count)
    """Shared by all whose emissions are in one list: by its serial's logprobs a second try is told from the first."""

    @property
    def open(self) -> int:
        """Model calls that it is at."""
        return sum(emission.closed is None for emission in self.emissions)

    def beside(self) -> Engine:
        """Another backend of the same run."""
        return replace(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = await received(scope, receive)
        if self.keep_requests:
            self.requests.append(call)
        if call.method == "POST" and call.route in _ENDPOINTS:
            await self._answer(_ENDPOINTS[call.route], call, scope, receive, send)
            return
        script = self._script()
        answer = (script.page(call.route) if call.method == "GET" else None) or script.missing(call.method, call.route)
        await _sent(call, answer, HEALTHY, scope, receive, send)

    def _script(self) -> EngineScript:
        told = {"version": self.version} if self.version is not None else {}
        script = SCRIPTS[self.name](model="scripted", **told)
        return replace(script, weight_version=self.weights) if hasattr(script, "weight_version") else script

    async def _answer(self, endpoint: Endpoint, call: Call, scope: Scope, receive: Receive, send: Send) -> None:
        asked = read(endpoint, call.body, dict(call.headers), _canaries)
        number = canary.owner(asked.prompts[0][-1])
        order = self.orders.get(number) or Order(self.fault)
        if order.once and any(emission.number == number for emission in self.emissions):
            order = Order()
        serial = next(self.serials)
        speech = canary.answer(number, order.tokens, serial, padding=order.padding)
        answer = self._script().answer(asked, [speech], Stamp(f"{serial:032x}", 1795253488))
        spans = self._spans(order) if self.administered or b'"weight_version' in answer.body else ()
        if len(spans) > 1:
            answer = _with_spans(answer, spans)
        emission = Emission(
            *(number, serial, asked.prompts[0], speech.ids, tuple(map(float, speech.logprobs)), speech.text("content")),
            weight_versions=spans,
            arrived=call.arrived,
            backend=self.backend,
            sound=order.sound,
        )
        self.emissions.append(emission)
        if order.twist is not None:
            answer = Answer(answer.status, tuple(order.twist(answer.frames)), answer.content_type)
        try:
            await _sent(call, answer, order.fault, scope, receive, _counting(emission, answer, send))
        finally:
            emission.closed = time.monotonic()
            emission.let_go = call.finished is None

    def _spans(self, order: Order) -> Spans:
        if order.changes_at is None:
            return ((self.weights, 0, order.tokens),)
        return ((self.weights, 0, order.changes_at), (f"{self.weights}+1", order.changes_at, order.tokens))


def _with_spans(answer: Answer, spans: Spans) -> Answer:
    """The answer with these, wherever its engine tells them."""
    told = [{"version": version, "start": start, "end": end} for version, start, end in spans]

    def tell(value: object) -> None:
        if isinstance(value, list):
            for each in value:
                tell(each)
        elif isinstance(value, dict):
            for name, each in value.items():
                if name == "weight_versions" and each is not None:
                    value[name] = told
                elif name == "weight_version" and each is not None:
                    value[name] = spans[-1][0]
                else:
                    tell(each)

    frames = tuple(Frame(lied(frame.data, tell), frame.told) for frame in answer.frames)
    return Answer(answer.status, frames, answer.content_type)


def _counting(emission: Emission, answer: Answer, send: Send) -> Send:
    """Counts an answer's tokens as told before the frame that tells them is handed on; of a whole one, all at once."""
    ends, total, so_far = [], 0, 0
    for frame in answer.frames:
        total += len(frame.data)
        so_far += len(frame.told)
        ends.append((total, so_far))
    sent = 0

    async def counting(message: Message) -> None:
        nonlocal sent
        begun = sent
        sent += len(message.get("body", b""))
        emission.told = max([emission.told, *(told for end, told in ends if begun < end and end <= sent)])
        await send(message)

    return counting


async def _sent(call: Call, answer: Answer, fault: Fault, scope: Scope, receive: Receive, send: Send) -> None:
    gone = asyncio.ensure_future(_gone(receive))
    try:
        await Sending(call, answer, fault, scope, send, gone).run()
    finally:
        gone.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _canaries(messages: Sequence[ChatMessage], tools: object) -> tuple[int, ...]:
    return canary.prompt((message.role, message.text) for message in messages)


@asynccontextmanager
async def running(engine: Engine, *, port: int = 0) -> AsyncIterator[str]:
    """The backend's URL while it runs on a loopback port of this process."""
    async with listening(engine, port=port) as url:
        engine.port = int(url.rpartition(":")[2])
        yield url
