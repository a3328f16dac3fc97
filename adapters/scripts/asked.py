"""What is asked of a scripted server: the fields that every engine reads, typed, and the rest by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from adapters.request import Endpoint
from adapters.scripts.template import Message, prompt_ids
from adapters.scripts.vocabulary import encode

ChatTemplate = Callable[[Sequence[Message], Sequence[msgspec.Raw]], tuple[int, ...]]
"""Makes a prompt's ids of messages and tools."""


class BadRequest(ValueError):
    """A request that no engine would take: not JSON, no messages, a number where a list belongs."""


class _StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False
    continuous_usage_stats: bool = False


class _Body(msgspec.Struct, frozen=True):
    model: str | None = None
    messages: tuple[Message, ...] | None = None
    prompt: str | tuple[int | str | tuple[int, ...], ...] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    n: int | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    stop: str | tuple[str, ...] | None = None
    echo: bool | None = None
    logprobs: bool | int | None = None
    top_logprobs: int | None = None
    tools: tuple[msgspec.Raw, ...] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    endpoint: Endpoint
    model: str | None
    messages: tuple[Message, ...]
    prompts: tuple[tuple[int, ...], ...]
    """Token ids of each prompt; a chat has one."""
    stream: bool
    include_usage: bool
    continuous_usage: bool
    n: int
    max_tokens: int | None
    temperature: float
    stops: tuple[str, ...]
    echo: bool
    """Whether each completion is to have its prompt before it."""
    logprobs: bool
    top_logprobs: int | None
    """How many alternatives; null where the request says null or nothing."""
    tools: bool
    """Whether tools are offered and may be called."""
    fields: Mapping[str, msgspec.Raw]
    """Every field of the body, as sent."""
    headers: Mapping[str, str]
    body: bytes

    @property
    def choices(self) -> int:
        return self.n * len(self.prompts)

    def prompt_of(self, index: int) -> tuple[int, ...]:
        """The prompt of a choice: choices of one prompt stand together, in the order of the prompts."""
        return self.prompts[index // self.n]


def read(endpoint: Endpoint, body: bytes, headers: Mapping[str, str], chat: ChatTemplate = prompt_ids) -> Asked:
    """Raises BadRequest."""
    try:
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        asked = msgspec.json.decode(body, type=_Body)
    except msgspec.DecodeError as exc:
        raise BadRequest(str(exc)) from exc
    options = asked.stream_options or _StreamOptions()
    return Asked(
        endpoint=endpoint,
        model=asked.model,
        messages=asked.messages or (),
        prompts=_prompts(endpoint, asked, chat),
        stream=bool(asked.stream),
        include_usage=options.include_usage,
        continuous_usage=options.continuous_usage_stats,
        n=1 if asked.n is None else asked.n,
        max_tokens=asked.max_tokens if asked.max_completion_tokens is None else asked.max_completion_tokens,
        temperature=1.0 if asked.temperature is None else asked.temperature,
        stops=(asked.stop,) if isinstance(asked.stop, str) else asked.stop or (),
        echo=endpoint == "completions" and bool(asked.echo),
        logprobs=_wants_logprobs(asked),
        top_logprobs=asked.top_logprobs if endpoint == "chat" else asked.logprobs,
        tools=bool(asked.tools) and asked.tool_choice != "none",
        fields=fields,
        headers=headers,
        body=body,
    )


def _wants_logprobs(asked: _Body) -> bool:
    """Completions take a number, and 0 of them means «the sampled one alone»; chat takes a flag."""
    return asked.logprobs is not None and asked.logprobs is not False


def _prompts(endpoint: Endpoint, asked: _Body, chat: ChatTemplate) -> tuple[tuple[int, ...], ...]:
    if endpoint == "chat":
        if asked.messages is None:
            raise BadRequest("missing field `messages`")
        if not asked.messages:
            raise BadRequest("the messages are empty")
        return (chat(asked.messages, asked.tools or ()),)
    match asked.prompt:
        case str() as text:
            return (encode(text),)
        case (int(), *_) as ids:
            return (tuple(token_id for token_id in ids if isinstance(token_id, int)),)
        case (_, *_) as several:
            return tuple(map(_one_prompt, several))
    raise BadRequest("missing field `prompt`")


def _one_prompt(prompt: int | str | tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(prompt, int):
        raise BadRequest("a prompt is a text or a list of ids")
    return encode(prompt) if isinstance(prompt, str) else prompt
