"""The `chat` dialect: OpenAI chat completions, which is also what the gateway speaks inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from adapters.request import CanonicalRequest
from adapters.schema import Dialect as DialectName
from adapters.schema import Error
from gateway.dialects import openai_errors
from gateway.dialects.dialect import BadRequest
from gateway.dialects.openai_request import (
    Fields,
    is_empty,
    read_count,
    read_field,
    read_include_usage,
    read_list,
    text_fields_of,
)
from gateway.dialects.openai_stream import Chunk, Members, OpenAIResponder, Root, members


class ChatDialect:
    name: DialectName = "chat"

    def read(self, body: bytes) -> CanonicalRequest:
        fields = text_fields_of(body)
        if read_list(fields, "messages", "a list of messages") is None:
            raise BadRequest(
                '`messages` is missing: send a list of messages, e.g. [{"role": "user", "content": "Hello"}].',
                param="messages",
                code="missing_required_parameter",
            )
        return CanonicalRequest(
            endpoint="chat",
            fields=fields,
            model=read_field(fields, "model", str, "a string"),
            stream=bool(read_field(fields, "stream", bool, "true or false")),
            include_usage=read_include_usage(fields),
            n=read_count(fields, "n"),
            logprobs=bool(read_field(fields, "logprobs", bool, "true or false")),
            top_logprobs=read_field(fields, "top_logprobs", int, "an integer"),
            return_token_ids=bool(read_field(fields, "return_token_ids", bool, "true or false")),
            tools=_offers_tools(fields),
        )

    def responder(self, request: CanonicalRequest, trace_id: str) -> OpenAIResponder:
        return OpenAIResponder(
            chunk_object="chat.completion.chunk",
            chunks_of=_chunks_of,
            include_usage=request.include_usage,
            prompt_field="messages",
        )

    def error_body(self, status: int, error: Error, request_id: str | None = None) -> bytes:
        return openai_errors.refusal_body(status, error, "messages")


def _offers_tools(fields: Fields) -> bool:
    tools = read_list(fields, "tools", "a list of tools")
    choice = fields.get("tool_choice")
    return tools is not None and not is_empty(tools) and (choice is None or bytes(choice) != b'"none"')


def _chunks_of(root: Root) -> list[Chunk]:
    """Role, then what was said, then each tool call, then the finish: for each choice in turn."""
    chunks = [chunk for choice in root.choices for chunk in _chunks_of_choice(choice, root.prompt)]
    if chunks:
        chunks[-1].root.update(root.extra)
    return chunks


def _chunks_of_choice(choice: Members, prompt: Members) -> list[Chunk]:
    message = members(choice.pop("message", None))
    index = choice.pop("index", msgspec.Raw(b"0"))
    finish = choice.pop("finish_reason", msgspec.Raw(b"null"))
    logprobs = choice.pop("logprobs", msgspec.Raw(b"null"))
    role = message.pop("role", msgspec.Raw(b'"assistant"'))
    calls = message.pop("tool_calls", None)

    def chunk(delta: Mapping[str, Any], **more: Any) -> Chunk:
        return Chunk({"index": index, "delta": dict(delta), "logprobs": None, "finish_reason": None, **more})

    # A content that is null stays null when the chunks are put together again.
    spoken = message.get("content")
    head = chunk({"role": role, "content": None if spoken is None or bytes(spoken) == b"null" else ""})
    # Whoever asks for them by `return_token_ids` looks at the first chunk of each choice; others have none here.
    head.root.update(prompt)
    chunks = [head]
    said: Members = {name: value for name, value in message.items() if bytes(value) not in (b"null", b'""')}
    deltas: list[Mapping[str, Any]] = [said] if said else []
    deltas.extend({"tool_calls": [{"index": i, **call}]} for i, call in enumerate(_calls(calls)))
    if not deltas and bytes(logprobs) != b"null":
        deltas.append({"content": ""})
    chunks.extend(chunk(delta) for delta in deltas)
    if len(chunks) > 1:
        # One payload, once: the whole answer's logprobs ride on the first chunk that says something.
        chunks[1].choice["logprobs"] = logprobs
    chunks.append(chunk({}, **{**choice, "finish_reason": finish}))
    return chunks


def _calls(raw: msgspec.Raw | None) -> list[Members]:
    calls: list[Members] | None = None
    if raw is not None:
        calls = msgspec.json.decode(raw, type=list[Members] | None)
    for call in calls or []:
        call.pop("index", None)
    return calls or []
