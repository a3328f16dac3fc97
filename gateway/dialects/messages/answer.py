"""An answer as an Anthropic message: whole, or as the events of a stream in the order that the SDKs expect."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from adapters.answer import Outcome, Piece
from adapters.answer_shape import Delta, ToolFragment
from adapters.request import CanonicalRequest
from adapters.schema import Choice, Completion, Error, ToolCall, Usage
from gateway.dialects import thought
from gateway.dialects.messages import errors
from gateway.dialects.messages.blocks import JSON, BlockWriter, ThinkingShown, call_id, event

_STOP_REASONS: Final[Mapping[str | None, str]] = {
    "length": "max_tokens",
    "content_filter": "refusal",
}


@dataclass(frozen=True, slots=True)
class MessagesRequest(CanonicalRequest):
    """The chat that an Anthropic request means, and what of the request only its answer has use for."""

    thinking: ThinkingShown = "shown"
    stop_sequences: tuple[str, ...] = ()


class MessagesResponder:
    """Reads typed deltas and completions alone: the shape of an engine's answer ends before it."""

    reads_deltas = True
    reads_bytes = False

    def __init__(self, request: MessagesRequest) -> None:
        self._request = request
        self._id = f"msg_{uuid.uuid4().hex[:24]}"
        self._blocks = BlockWriter(request.thinking)
        self._begun = False

    def piece(self, piece: Piece) -> bytes:
        if not piece.deltas:
            return b""
        # How long the prompt is, an engine says at its stream's end; it goes out with `message_delta`.
        events = self._start(None)
        for delta in piece.deltas:
            if delta.index == 0:
                events += self._blocks.add(delta)
        return b"".join(events)

    def finish(self, outcome: Outcome) -> bytes:
        return b"".join([*self._start(outcome.completion.usage), *self._end(outcome.completion)])

    def whole(self, outcome: Outcome) -> bytes:
        completion = outcome.completion
        choice = _first(completion)
        return msgspec.json.encode(
            {
                **self._message(completion.usage),
                "content": self._content(choice),
                **_stop(choice, self._request),
                "usage": _usage(completion.usage),
            }
        )

    def streamed(self, outcome: Outcome) -> bytes:
        completion = outcome.completion
        choice = _first(completion)
        calls = tuple(
            ToolFragment(at, call.id, call.name, bytes(_input(call)).decode())
            for at, call in enumerate(choice.tool_calls or ())
        )
        said = Delta(0, choice.text, choice.reasoning, calls)
        return b"".join(
            [*self._start(completion.usage), *self._blocks.add(said), *self._end(completion)],
        )

    def error_event(self, error: Error) -> bytes:
        return errors.error_event(error)

    def _start(self, usage: Usage | None) -> list[bytes]:
        """The first event, once."""
        if self._begun:
            return []
        self._begun = True
        return [event("message_start", {"message": self._message(usage)})]

    def _end(self, completion: Completion) -> list[bytes]:
        delta = _stop(_first(completion), self._request)
        return [
            *self._blocks.close(),
            event("message_delta", {"delta": delta, "usage": _usage(completion.usage)}),
            event("message_stop", {}),
        ]

    def _message(self, usage: Usage | None) -> dict[str, object]:
        """The message before anything is said."""
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._request.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(usage and Usage(prompt_tokens=usage.prompt_tokens, cached_tokens=usage.cached_tokens)),
        }

    def _content(self, choice: Choice) -> list[JSON]:
        blocks: list[JSON] = []
        shows = self._request.thinking
        if choice.reasoning and shows != "hidden":
            shown = shows == "shown"
            signature = thought.sign(choice.reasoning, shown=shown)
            blocks.append({"type": "thinking", "thinking": choice.reasoning if shown else "", "signature": signature})
        if choice.text:
            blocks.append({"type": "text", "text": choice.text})
        blocks.extend(
            {"type": "tool_use", "id": call_id(call.id), "name": call.name or "", "input": _input(call)}
            for call in choice.tool_calls or ()
        )
        return blocks


def _first(completion: Completion) -> Choice:
    """The one choice that this API has."""
    return next((choice for choice in completion.choices if choice.index == 0), Choice(0))


def _input(call: ToolCall) -> msgspec.Raw:
    """The arguments as the engine wrote them. What is no JSON object is shown as the text that it is, not left out."""
    text = (call.arguments or "").strip() or "{}"
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError):
        return msgspec.Raw(msgspec.json.encode({"INVALID_JSON": text}))
    return msgspec.Raw(text.encode())


def _stop(choice: Choice, request: MessagesRequest) -> dict[str, object]:
    reason = _STOP_REASONS.get(choice.finish_reason)
    stopped_by = choice.stop_reason if choice.stop_reason in request.stop_sequences else None
    if reason is None:
        reason = "tool_use" if choice.tool_calls else "stop_sequence" if stopped_by is not None else "end_turn"
    told: dict[str, object] = {
        "stop_reason": reason,
        "stop_sequence": stopped_by if reason == "stop_sequence" else None,
    }
    if reason == "refusal":
        told["stop_details"] = {"type": "refusal", "category": None, "explanation": None}
    return told


def _usage(usage: Usage | None) -> dict[str, object]:
    """Counts as Anthropic splits them: what was read from the cache is no part of `input_tokens`.

    An engine that counts nothing is the only one whose counts are 0 here: the shape has no word for «not told».
    """
    usage = usage or Usage()
    cached = usage.cached_tokens or 0
    counts: dict[str, object] = {
        "input_tokens": max(0, (usage.prompt_tokens or 0) - cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": usage.completion_tokens or 0,
    }
    if usage.reasoning_tokens:
        counts["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return counts
