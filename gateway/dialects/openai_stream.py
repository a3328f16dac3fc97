"""A whole OpenAI answer taken apart, to be sent as the chunks of a stream. Every value keeps its own JSON text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from adapters.answer import DONE, Outcome, Piece
from adapters.schema import Error
from gateway.dialects import openai_errors

Members = dict[str, msgspec.Raw]

_NULL = rb'"(?:prompt|completion)_tokens_details"\s*:\s*null\s*'
# Behind another member, or before all others.
_NULL_DETAILS = re.compile(rb",\s*%b(?=[,}])|(?<=\{)\s*(?:%b(?:,\s*|(?=\})))+" % (_NULL, _NULL))

# In a stream these stand on each choice's first chunk.
_PROMPT_KEYS = frozenset({"prompt_token_ids"})
_SHARED_KEYS = ("id", "object", "created", "model", "system_fingerprint", "service_tier")


@dataclass(slots=True)
class Chunk:
    """One chunk to be: its only choice, and what it alone carries at the root."""

    choice: dict[str, Any]
    root: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Root:
    """The root of a whole answer: what every chunk repeats, and what only one of them carries."""

    shared: dict[str, Any]
    choices: list[Members]
    usage: msgspec.Raw | None
    prompt: Members
    extra: Members

    @classmethod
    def of(cls, body: bytes, chunk_object: str) -> Root:
        """Raises msgspec.DecodeError if the body is no JSON object with a list of choices."""
        root = members(msgspec.Raw(body))
        choices = msgspec.json.decode(root.pop("choices", b"[]"), type=list[Members])
        usage = root.pop("usage", None)
        shared: dict[str, Any] = {key: root.pop(key) for key in _SHARED_KEYS if key in root}
        shared["object"] = chunk_object
        prompt = {key: root.pop(key) for key in _PROMPT_KEYS if key in root}
        extra = {key: value for key, value in root.items() if bytes(value) != b"null"}
        return cls(shared, choices, usage if usage is not None and bytes(usage) != b"null" else None, prompt, extra)

    def chunk(self, chunk: Chunk) -> dict[str, Any]:
        return {**self.shared, "choices": [chunk.choice], **chunk.root}

    def usage_chunk(self) -> dict[str, Any]:
        return {**self.shared, "choices": [], "usage": self.usage}


def members(raw: msgspec.Raw | None) -> Members:
    return msgspec.json.decode(raw, type=Members) if raw is not None else {}


def event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def without_null_details(body: bytes) -> bytes:
    """Without the details of usage that some servers write as null: OpenAI's own are an object or absent.

    Clients that look for the cached tokens inside them break on that. No text can look like such a member: a quote
    inside a JSON string has a backslash before it.
    """
    return _NULL_DETAILS.sub(b"", body) if b"_tokens_details" in body else body


class OpenAIResponder:
    """Passes an engine's own chunks on, and streams a whole answer where the backend was not asked to stream.

    `chunks_of` takes a whole answer apart into the chunks of this dialect; `prompt_field` is where its requests have
    their prompt.
    """

    __slots__ = ("_chunk_object", "_chunks_of", "_include_usage", "_prompt_field")
    reads_deltas = False
    reads_bytes = True

    def __init__(
        self, *, chunk_object: str, chunks_of: Callable[[Root], list[Chunk]], include_usage: bool, prompt_field: str
    ) -> None:
        self._chunk_object = chunk_object
        self._chunks_of = chunks_of
        self._include_usage = include_usage
        self._prompt_field = prompt_field

    def piece(self, piece: Piece) -> bytes:
        # Usage stands in what ends a stream; the tokens before it need not be looked through.
        return without_null_details(piece.client) if piece.ends else piece.client

    def finish(self, outcome: Outcome) -> bytes:
        return without_null_details(outcome.client)

    def whole(self, outcome: Outcome) -> bytes:
        return without_null_details(outcome.client)

    def streamed(self, outcome: Outcome) -> bytes:
        root = Root.of(without_null_details(outcome.client), self._chunk_object)
        events = [event(root.chunk(chunk)) for chunk in self._chunks_of(root)]
        if self._include_usage and root.usage is not None:
            events.append(event(root.usage_chunk()))
        return b"".join([*events, DONE])

    def error_event(self, error: Error) -> bytes:
        return openai_errors.error_event(error, self._prompt_field)
