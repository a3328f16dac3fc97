"""The way in to Anthropic's Messages: a request becomes the chat that it means, one parse of each field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from adapters.request import CanonicalRequest
from adapters.schema import Dialect as DialectName
from adapters.schema import Error
from gateway.dialects.conversation import chat_messages, encoded
from gateway.dialects.dialect import BadRequest
from gateway.dialects.messages import body as typed
from gateway.dialects.messages import errors
from gateway.dialects.messages.answer import MessagesRequest, MessagesResponder
from gateway.dialects.messages.blocks import ThinkingShown
from gateway.dialects.messages.history import turns
from gateway.dialects.messages.tools import chat_choice, chat_tools
from gateway.dialects.openai_request import Fields, text_fields_of

T = TypeVar("T")

_model: Final = msgspec.json.Decoder(str)
_flag: Final[msgspec.json.Decoder[bool]] = msgspec.json.Decoder(bool)
_count: Final = msgspec.json.Decoder(int)
_texts: Final = msgspec.json.Decoder(list[str])
_system: Final = msgspec.json.Decoder(str | list[typed.Text])
_messages: Final = msgspec.json.Decoder(list[typed.Message])
_tools: Final = msgspec.json.Decoder(list[typed.Tool])
_choice: Final = msgspec.json.Decoder(typed.ToolChoice)
_thinking: Final = msgspec.json.Decoder(typed.ThinkingConfig)
_config: Final = msgspec.json.Decoder(typed.OutputConfig)
_format: Final = msgspec.json.Decoder(typed.OutputFormat)

# Read here, and said in the fields of a chat.
_TRANSLATED: Final = frozenset(
    {"system", "messages", "tools", "tool_choice", "stop_sequences", "thinking", "output_config", "output_format"}
)
# Hints for Anthropic's own service, of its caches, bills and tiers. An answer without them is as right.
_HINTS: Final = frozenset(
    {"anthropic_beta", "anthropic_version", "betas", "billing_policy", "cache_control", "compaction"}
    | {"context_management", "diagnostics", "fallback_credit_token", "fallbacks", "inference_geo", "metadata"}
    | {"service_tier", "speed", "user_profile_id", "workspace_id"}
)
_SERVICES: Final = frozenset({"container", "mcp_servers", "thread"})
_INSTEAD: Final[Mapping[str, str]] = {
    "functions": "send `tools`",
    "function_call": "send `tool_choice`",
    "logprobs": "an answer of this API has no place for them; the trace has them",
    "max_completion_tokens": "send `max_tokens`",
    "n": "an answer of this API is one message",
    "parallel_tool_calls": "send `tool_choice.disable_parallel_tool_use`",
    "prompt": "send `messages`",
    "response_format": "send `output_config.format`",
    "return_token_ids": "an answer of this API has no place for them; the trace has them",
    "stop": "send `stop_sequences`",
    "stream_options": "a stream of this API always ends with its usage",
    "top_logprobs": "an answer of this API has no place for them",
}
_NOT_PASSED: Final = _TRANSLATED | _HINTS | _SERVICES | _INSTEAD.keys()
_NOTHING: Final = frozenset((b"null", b"false", b"[]", b"{}", b'""'))


class MessagesDialect:
    name: DialectName = "messages"

    def read(self, body: bytes) -> MessagesRequest:
        given = text_fields_of(body)
        limit = _required(typed.read(given.get("max_tokens"), "max_tokens", _count), "max_tokens")
        if limit < 1:
            raise BadRequest("max_tokens: Input should be greater than or equal to 1", param="max_tokens")
        return _read(given)

    def read_count(self, body: bytes) -> MessagesRequest:
        """A request of `count_tokens`: the same without a limit."""
        return _read(text_fields_of(body))

    def count_body(self, tokens: int) -> bytes:
        return msgspec.json.encode({"input_tokens": tokens})

    def responder(self, request: CanonicalRequest, trace_id: str) -> MessagesResponder:
        assert isinstance(request, MessagesRequest)
        return MessagesResponder(request)

    def error_body(self, status: int, error: Error, request_id: str | None = None) -> bytes:
        return errors.error_body(status, error, request_id)


def _read(given: Fields) -> MessagesRequest:
    model = _required(typed.read(given.get("model"), "model", _model), "model")
    _refuse_what_has_no_counterpart(given)
    asked_stops = typed.read(given.get("stop_sequences"), "stop_sequences", _texts)
    stops = tuple(asked_stops or ())
    # What is no field of Anthropic's is the engine's, as in `extra_body={"seed": 1}`, and keeps its own text.
    fields = {name: raw for name, raw in given.items() if name not in _NOT_PASSED}
    fields |= _messages_of(given) | _tools_of(given) | _format_of(given)
    if stops:
        fields["stop"] = Raw(msgspec.json.encode(stops))
    stream = typed.read(given.get("stream"), "stream", _flag)
    return MessagesRequest(
        endpoint="chat",
        fields=fields,
        model=model,
        stream=bool(stream),
        tools="tools" in fields and fields.get("tool_choice") != Raw(b'"none"'),
        translated=True,
        thinking=_shown(typed.read(given.get("thinking"), "thinking", _thinking)),
        stop_sequences=stops,
    )


def _messages_of(given: Fields) -> Fields:
    messages = _required(typed.read(given.get("messages"), "messages", _messages), "messages")
    if not messages:
        raise BadRequest("messages: at least one message is required", param="messages")
    if messages[-1].role == "assistant" and "continue_final_message" not in given:
        raise BadRequest(
            "messages: the last message is the assistant's, and the backends of this gateway cannot be told to go on "
            "from there (prefill). The conversation must end with a user message.",
            param="messages",
        )
    system = typed.read(given.get("system"), "system", _system)
    return {"messages": encoded(chat_messages(turns(system, messages)))}


def _tools_of(given: Fields) -> Fields:
    tools = typed.read(given.get("tools"), "tools", _tools)
    if not tools:
        return {}  # A choice between no tools says nothing.
    choice = typed.read(given.get("tool_choice"), "tool_choice", _choice)
    return {"tools": chat_tools(tools), **(chat_choice(choice) if choice is not None else {})}


def _format_of(given: Fields) -> Fields:
    config = typed.read(given.get("output_config"), "output_config", _config)
    # Its name before it was in `output_config`.
    asked = (config and config.format) or typed.read(given.get("output_format"), "output_format", _format)
    if asked is None:
        return {}
    schema = {"name": "output", "schema": asked.schema, "strict": True}
    return {"response_format": Raw(msgspec.json.encode({"type": "json_schema", "json_schema": schema}))}


def _shown(config: typed.ThinkingConfig | None) -> ThinkingShown:
    """Whether an engine thinks is its own matter, or `chat_template_kwargs`'s; this is what its client sees of it.

    Without a word of it thoughts are shown: only a client that has them can send them back, and a prompt without them
    would not be the one that the model sampled after.
    """
    if config is None:
        return "shown"
    if config.type == "disabled":
        return "hidden"
    return "signed" if config.display == "omitted" else "shown"


def _refuse_what_has_no_counterpart(given: Fields) -> None:
    for name, raw in given.items():
        if bytes(raw).strip() in _NOTHING:
            continue
        if name in _SERVICES:
            raise BadRequest(f"{name}: this needs a service of Anthropic's that the gateway does not have", param=name)
        if name in _INSTEAD and not (name == "n" and raw == Raw(b"1")):
            raise BadRequest(f"{name}: not a field of this API: {_INSTEAD[name]}", param=name)


def _required(value: T | None, name: str) -> T:
    if value is None:
        raise BadRequest(f"{name}: Field required", param=name, code="missing_required_parameter")
    return value
