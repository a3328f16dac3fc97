"""An answer as a response: whole, or as the events of a stream in the order that the SDKs expect."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Raw

from adapters.answer import Outcome, Piece
from adapters.answer_shape import Delta, ToolFragment
from adapters.request import CanonicalRequest
from adapters.schema import Choice, Error, Usage
from gateway.dialects.in_turn import InTurn
from gateway.dialects.responses import chat_body, errors, names
from gateway.dialects.responses.events import JSON
from gateway.dialects.responses.items import Items
from gateway.dialects.responses.tools import Offered

_INCOMPLETE: Final[Mapping[str | None, str]] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
}
# What a response says where its request said nothing. Null: the engine's own, which it does not tell.
_ECHOED: Final[Mapping[str, object]] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "max_tool_calls": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "prompt_cache_key": None,
    "reasoning": {"effort": None, "summary": None},
    "safety_identifier": None,
    "service_tier": None,
    "store": True,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_logprobs": 0,
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}


@dataclass(frozen=True, slots=True)
class ResponsesRequest(CanonicalRequest):
    """The chat that a Responses request means, and what of the request only its answer has use for."""

    asked: Mapping[str, Raw] = field(default_factory=dict)
    """The fields as they came, which the answer repeats."""
    offered: Mapping[str, Offered] = field(default_factory=dict)
    """The tools by their names in the chat."""


class ResponsesResponder:
    """Reads typed deltas and completions; of an engine's bytes what these don't tell, where it was asked for."""

    reads_deltas = True

    def __init__(self, request: ResponsesRequest, trace_id: str) -> None:
        self._request = request
        self._items = Items(trace_id, request.offered)
        self._writer = InTurn(self._items)
        self._begun = False
        self._asked_format = "response_format" in request.fields
        self._facts: dict[str, object] = {
            "id": names.response_id(trace_id),
            "object": "response",
            "created_at": int(time.time()),
            "model": request.model,
            **{name: _echo(request.asked.get(name), default) for name, default in _ECHOED.items()},
        }

    @property
    def reads_bytes(self) -> bool:
        return self._request.logprobs or self._asked_format

    def piece(self, piece: Piece) -> bytes:
        if not piece.deltas:
            return b""
        events = self._start()
        for delta in piece.deltas:
            if delta.index == 0:
                if self._request.logprobs:
                    self._items.logprobs += chat_body.logprobs_of(delta.logprobs)
                events += self._writer.add(delta)
        return b"".join(events)

    def finish(self, outcome: Outcome) -> bytes:
        return b"".join([*self._start(), *self._end(outcome)])

    def whole(self, outcome: Outcome) -> bytes:
        self._say(outcome)
        return msgspec.json.encode(self._ended(outcome))

    def streamed(self, outcome: Outcome) -> bytes:
        return b"".join([*self._start(), *self._say(outcome), *self._end(outcome)])

    def error_event(self, error: Error) -> bytes:
        """Both of the events that tell it: SDKs raise at the one, Codex at the other."""
        events = self._items.events
        error = errors.told(error)
        told = {
            "code": None if error.code is None else str(error.code),
            "message": error.message,
            "param": error.param,
        }
        # Within an error's own key too: it is by this that OpenAI's SDKs know that they are to raise.
        beside = {**told, "error": {"type": error.type or "server_error", **told}}
        failed = {"code": errors.code_of(error), "message": error.message}
        response = {**self._response("failed", None), "error": failed}
        return b"".join(
            [
                *self._start(),
                events.event("error", beside),
                events.event("response.failed", {"response": response}),
            ]
        )

    def _start(self) -> list[bytes]:
        """The first events, once."""
        if self._begun:
            return []
        self._begun = True
        response = self._response("in_progress", None)
        event = self._items.events.event
        return [event(f"response.{name}", {"response": response}) for name in ("created", "in_progress")]

    def _say(self, outcome: Outcome) -> list[bytes]:
        """A whole answer, in one piece."""
        choice = _first(outcome)
        if self._request.logprobs:
            self._items.logprobs += chat_body.logprobs_in(outcome.client)
        calls = tuple(
            ToolFragment(at, call.id, call.name, call.arguments) for at, call in enumerate(choice.tool_calls or ())
        )
        refusal = chat_body.refusal_in(outcome.client) if self._asked_format else None
        # A sentence where JSON was asked for: SDKs hand a refusal on, and would fail to parse a text.
        self._items.refuses = refusal is not None
        events = self._writer.add(Delta(0, refusal or choice.text, choice.reasoning, calls))
        return [*events, *self._close(choice)]

    def _close(self, choice: Choice) -> list[bytes]:
        self._items.cut = choice.finish_reason in _INCOMPLETE
        return self._writer.close()

    def _end(self, outcome: Outcome) -> list[bytes]:
        events = self._close(_first(outcome))
        response = self._ended(outcome)
        return [*events, self._items.events.event(f"response.{response['status']}", {"response": response})]

    def _ended(self, outcome: Outcome) -> JSON:
        reason = _INCOMPLETE.get(_first(outcome).finish_reason)
        response = self._response("completed" if reason is None else "incomplete", outcome.completion.usage)
        if reason is not None:
            return {**response, "incomplete_details": {"reason": reason}}
        return {**response, "completed_at": int(time.time())}

    def _response(self, status: str, usage: Usage | None) -> JSON:
        return {
            **self._facts,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "output": list(self._items.ended),
            "usage": _usage(usage),
        }


def _echo(given: Raw | None, default: object) -> object:
    return default if given is None or given == Raw(b"null") else given


def _first(outcome: Outcome) -> Choice:
    """The one choice that this API has."""
    return next((choice for choice in outcome.completion.choices if choice.index == 0), Choice(0))


def _usage(usage: Usage | None) -> JSON | None:
    """Null where the engine counts nothing; where it leaves one out that is 0, for the shape has no «not told»."""
    if usage is None:
        return None
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0, "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": usage.total_tokens or prompt + completion,
    }
