"""Asks a server the way the gateway does: its plan, its client, its reading; without an agent and a database."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import msgspec

from adapters.answer import AnswerReader, Outcome
from adapters.plan import Plan
from adapters.schema import Capture, Choice, Completion
from gateway.dialects.chat import ChatDialect
from gateway.dispatch import BackendRefused, Dispatched, Dispatcher, Order
from gateway.refusals import Refusal
from gateway.upstream import UpstreamError

_ANSWER_BYTES: Final = 64 * 1024 * 1024


class NotHeard(Exception):
    """The server gave no answer to this call; the message says what it gave instead."""

    def __init__(self, reason: str, *, refused: bool) -> None:
        super().__init__(reason)
        self.refused = refused
        """Whether it refused the call (a 4xx), as a server does that can't do what is asked."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One answer, with what was sent for it and what the gateway would say of it."""

    plan: Plan
    outcome: Outcome

    @property
    def completion(self) -> Completion:
        return self.outcome.completion

    @property
    def choice(self) -> Choice:
        return self.completion.choices[0]

    @property
    def without_ids(self) -> str:
        """Why there are no ids, where there are none."""
        return self.outcome.verdict.fidelity_reason or "the server tells no token ids"

    @property
    def how(self) -> str:
        """In words: `whole`, `streamed`, or `buffered` (asked whole, to be streamed to the agent)."""
        return self.plan.mode


class Asker:
    """Greedy chat calls to one server. Equal calls are asked once."""

    def __init__(
        self, dispatcher: Dispatcher, model: str, *, capture: Capture = "exact", patience: float = 300.0
    ) -> None:
        self._dispatcher = dispatcher
        self._model = model
        self._patience = patience
        self._heard: dict[tuple[Capture, bytes], Heard] = {}

    async def ask(self, prompt: str, *, stream: bool, capture: Capture = "exact", **fields: object) -> Heard:
        """Raises NotHeard."""
        greedy = {"model": self._model, "messages": [{"role": "user", "content": prompt}], "temperature": 0}
        streaming = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        body = msgspec.json.encode(greedy | {"max_tokens": 64} | streaming | fields)
        if (capture, body) not in self._heard:
            self._heard[capture, body] = await self._call(body, capture)
        return self._heard[capture, body]

    async def both(self, prompt: str, **fields: object) -> tuple[Heard, Heard]:
        """The same call whole and streamed. Raises NotHeard."""
        whole = await self.ask(prompt, stream=False, capture="exact", **fields)
        return whole, await self.ask(prompt, stream=True, capture="exact", **fields)

    async def _call(self, body: bytes, capture: Capture) -> Heard:
        order = Order("verify", ChatDialect().read(body), capture, None, {}, [], lambda plan, backend: None)
        try:
            async with asyncio.timeout(self._patience):
                dispatched = await self._dispatcher.dispatch(order)
                try:
                    heard = Heard(dispatched.plan, await _read(dispatched))
                finally:
                    await asyncio.shield(dispatched.close())
        except BackendRefused as exc:
            words = f"{exc.status}: {exc.error.message}"
            # A key that is refused says nothing of what the server can.
            raise NotHeard(words, refused=400 <= exc.status < 500 and exc.status not in (401, 403)) from exc
        except (Refusal, UpstreamError) as exc:
            raise NotHeard(str(exc), refused=False) from exc
        except TimeoutError as exc:
            raise NotHeard(f"no answer within {self._patience:g} s", refused=False) from exc
        if not heard.outcome.finished:
            error = heard.completion.error
            raise NotHeard(error.message if error else "the answer has no proper end", refused=False)
        return heard


async def _read(dispatched: Dispatched) -> Outcome:
    reader = AnswerReader(dispatched.plan, typed=False)
    answer = dispatched.answer
    if not answer.is_event_stream:
        return reader.whole(await answer.body(_ANSWER_BYTES))
    async for data in answer.chunks(_ANSWER_BYTES):
        reader.feed(data)
    return reader.finish()
