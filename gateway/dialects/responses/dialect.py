"""The way in to OpenAI's Responses: a request becomes the chat that it means, one parse of each field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Raw

from adapters.request import CanonicalRequest
from adapters.schema import Dialect as DialectName
from adapters.schema import Error, Trace
from gateway.dialects.conversation import chat_messages, encoded
from gateway.dialects.dialect import BadRequest
from gateway.dialects.openai_request import Fields, read_field, text_fields_of
from gateway.dialects.responses import errors
from gateway.dialects.responses.answer import ResponsesRequest, ResponsesResponder
from gateway.dialects.responses.body import ReasoningConfig, TextConfig
from gateway.dialects.responses.history import previous_of, traces_named, turns
from gateway.dialects.responses.tools import chat_fields, offered
from gateway.dialects.typed_fields import read

_reasoning: Final = msgspec.json.Decoder(ReasoningConfig)
_text: Final = msgspec.json.Decoder(TextConfig)

_LOGPROBS: Final = "message.output_text.logprobs"
# Open engines know these words alone.
_EFFORTS: Final = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high", "max": "high"}

# Read here, and said in the fields of a chat.
_TRANSLATED: Final = frozenset(
    {"include", "input", "instructions", "max_output_tokens", "parallel_tool_calls", "previous_response_id"}
    | {"reasoning", "stream_options", "text", "tool_choice", "tools", "top_logprobs"}
)
# Hints for OpenAI's own service, of its caches, bills, tiers and limits. An answer without them is as right.
_HINTS: Final = frozenset(
    {"access_programs", "background_options", "context_management", "image", "max_tool_calls", "metadata"}
    | {"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "safety_identifier", "service_tier"}
    | {"store", "truncation", "user", "client_metadata"}
)
_SERVICES: Final = frozenset({"background", "conversation", "moderation", "prompt"})
_INSTEAD: Final[Mapping[str, str]] = {
    "functions": "send `tools`",
    "function_call": "send `tool_choice`",
    "logprobs": f'send `include: ["{_LOGPROBS}"]`',
    "max_completion_tokens": "send `max_output_tokens`",
    "max_tokens": "send `max_output_tokens`",
    "messages": "send `input`",
    "n": "an answer of this API is one response",
    "reasoning_effort": "send `reasoning.effort`",
    "response_format": "send `text.format`",
    "return_token_ids": "an answer of this API has no place for them; the trace has them",
}
_NOT_PASSED: Final = _TRANSLATED | _HINTS | _SERVICES | _INSTEAD.keys()
_NOTHING: Final = frozenset((b"null", b"false", b"[]", b"{}", b'""'))
# A body without these words names no trace.
_NAMING: Final = (b"previous_response_id", b"item_reference")


class ResponsesDialect:
    name: DialectName = "responses"

    def read(self, body: bytes) -> ResponsesRequest:
        return self.read_after(body, {})

    def names(self, body: bytes) -> Sequence[str]:
        return traces_named(text_fields_of(body)) if any(word in body for word in _NAMING) else ()

    def read_after(self, body: bytes, earlier: Mapping[str, Trace]) -> ResponsesRequest:
        return _read(text_fields_of(body), earlier)

    def responder(self, request: CanonicalRequest, trace_id: str) -> ResponsesResponder:
        assert isinstance(request, ResponsesRequest)
        return ResponsesResponder(request, trace_id)

    def error_body(self, status: int, error: Error, request_id: str | None = None) -> bytes:
        return errors.error_body(status, error)


def _read(given: Fields, earlier: Mapping[str, Trace]) -> ResponsesRequest:
    model = read_field(given, "model", str, "a string")
    if model is None:
        raise _missing("model", "the name of a model")
    _refuse_what_has_no_counterpart(given)
    tools = offered(given.get("tools"))
    include = read_field(given, "include", list[str], "a list of strings") or []
    top = read_field(given, "top_logprobs", int, "an integer")
    logprobs = _LOGPROBS in include or bool(top)
    # What is no field of OpenAI's is the engine's, as in `extra_body={"seed": 1}`, and keeps its own text.
    fields = {name: raw for name, raw in given.items() if name not in _NOT_PASSED}
    fields |= _messages(given, earlier) | chat_fields(tools, given) | _limits(given)
    fields |= _format(given) | _effort(given)
    if logprobs:
        fields |= {"logprobs": Raw(b"true"), "top_logprobs": Raw(str(top or 0).encode())}
    return ResponsesRequest(
        endpoint="chat",
        fields=fields,
        model=model,
        stream=bool(read_field(given, "stream", bool, "true or false")),
        logprobs=logprobs,
        top_logprobs=top or 0 if logprobs else None,
        translated=True,
        tools="tools" in fields and fields.get("tool_choice") != Raw(b'"none"'),
        asked=given,
        offered=tools,
    )


def _messages(given: Fields, earlier: Mapping[str, Trace]) -> Fields:
    if given.get("input", Raw(b"null")) == Raw(b"null") and previous_of(given) is None:
        raise _missing("input", "a string or a list of items")
    messages = chat_messages(turns(given, earlier))
    if not messages:
        raise BadRequest("input: at least one item is required", param="input")
    return {"messages": encoded(messages)}


def _limits(given: Fields) -> Fields:
    limit = read_field(given, "max_output_tokens", int, "an integer")
    if limit is None:
        return {}
    if limit < 1:
        raise BadRequest("max_output_tokens: must be at least 1", param="max_output_tokens", code="integer_below_min")
    return {"max_tokens": Raw(str(limit).encode())}


def _format(given: Fields) -> Fields:
    config = read(given.get("text"), "text", _text)
    asked = config.format if config is not None else None
    if asked is None or asked.type == "text":
        return {}
    if asked.type == "json_object":
        return {"response_format": Raw(b'{"type":"json_object"}')}
    if not bytes(asked.schema).startswith(b"{"):
        raise BadRequest("text.format.schema: a JSON schema, an object, is required", param="text.format.schema")
    schema = {"name": asked.name, "schema": asked.schema, "description": asked.description, "strict": asked.strict}
    told = {name: value for name, value in schema.items() if value is not None}
    return {"response_format": Raw(msgspec.json.encode({"type": "json_schema", "json_schema": told}))}


def _effort(given: Fields) -> Fields:
    """How much a model is to think, where it is one of those that heed it; `none` is for its template to say."""
    config = read(given.get("reasoning"), "reasoning", _reasoning)
    effort = _EFFORTS.get(config.effort or "") if config is not None else None
    return {"reasoning_effort": Raw(msgspec.json.encode(effort))} if effort is not None else {}


def _refuse_what_has_no_counterpart(given: Fields) -> None:
    for name, raw in given.items():
        if bytes(raw).strip() in _NOTHING:
            continue
        if name in _SERVICES:
            raise BadRequest(
                f"{name}: this needs a service of OpenAI's that the gateway does not have",
                param=name,
                code="unsupported_parameter",
            )
        if name in _INSTEAD and not (name == "n" and raw == Raw(b"1")):
            raise BadRequest(
                f"{name}: not a field of this API: {_INSTEAD[name]}", param=name, code="unsupported_parameter"
            )


def _missing(name: str, wanted: str) -> BadRequest:
    return BadRequest(f"`{name}` is missing: send {wanted}.", param=name, code="missing_required_parameter")
