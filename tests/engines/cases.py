"""What is asked of every engine: the rows of the matrix, and what proves that an answer shows what its row says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from tests.engines.folding import Folded

Endpoint = Literal["chat", "completions"]
Body = Mapping[str, Any]

WEATHER: Final[Body] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the current weather for a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "City name"}},
            "required": ["city"],
        },
    },
}


@dataclass(frozen=True, slots=True)
class Case:
    """One row: a request without model and stream, sent greedily unless it is `sampled`."""

    name: str
    endpoint: Endpoint
    body: Body
    shows: Callable[[Folded], bool]
    sampled: bool = False
    """With temperature: no two answers need be the same, so ids are held against the text instead."""
    usage: bool = True
    """Whether a streaming agent asks for usage."""
    streamed_only: bool = False

    def request(self, *, stream: bool) -> dict[str, Any]:
        body: dict[str, Any] = {"model": "tiny", "temperature": 1 if self.sampled else 0, **self.body}
        if stream:
            body["stream"] = True
            if self.usage:
                body["stream_options"] = {"include_usage": True}
        return body


def _chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 100, **fields}


def _turn(text: str) -> str:
    """A chat's prompt as text, for the endpoint that renders none: the tiny model answers nothing else."""
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"


def _says(text: str) -> Callable[[Folded], bool]:
    return lambda answer: all(text in choice.everything for choice in answer.choices)


def _ends(reason: str, *, without: str = "\0") -> Callable[[Folded], bool]:
    return lambda answer: all(
        choice.finish_reason == reason and without not in choice.text for choice in answer.choices
    )


def _calls(*cities: str) -> Callable[[Folded], bool]:
    expected = tuple(("get_weather", f'{{"city": "{city}"}}') for city in cities)
    return lambda answer: all(choice.tool_calls == expected for choice in answer.choices)


def _choices(count: int) -> Callable[[Folded], bool]:
    return lambda answer: len(answer.choices) == count


def _logprobs(answer: Folded) -> bool:
    return all(choice.logprobs for choice in answer.choices)


_PARIS: Final = "What is the weather in Paris?"
_PARIS_CALL: Final[Body] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
}
_FOLLOW_UP: Final = [
    {"role": "user", "content": _PARIS},
    {"role": "assistant", "content": "", "tool_calls": [_PARIS_CALL]},
    {"role": "tool", "tool_call_id": "call_1", "content": '{"temp_c": 21}'},
]

_CHAT: Final = (
    ("plain", _chat("Say hello."), _says("Hello! I am a tiny scripted model.")),
    ("tool call", _chat(_PARIS, tools=[WEATHER]), _calls("Paris")),
    ("parallel tools", _chat("What is the weather in Paris and Tokyo?", tools=[WEATHER]), _calls("Paris", "Tokyo")),
    ("after a tool result", _chat("", messages=_FOLLOW_UP, tools=[WEATHER]), _says("It is 21 degrees in Paris.")),
    ("reasoning", _chat("What is 2+2? Think first."), _says("Two plus two makes four.")),
    ("reasoning, then a tool", _chat("Think, then check the weather in Paris.", tools=[WEATHER]), _calls("Paris")),
    ("broken tool call", _chat("Make a broken tool call.", tools=[WEATHER]), _choices(1)),
    ("logprobs", _chat("Say hello.", logprobs=True, top_logprobs=2), _logprobs),
    ("logprobs and a tool", _chat(_PARIS, tools=[WEATHER], logprobs=True), _calls("Paris")),
    ("multi-byte text", _chat("Say something with emoji."), _says("🙂 naïve 你好世界 👩‍🔬")),
    ("stop string", _chat("Count to thirty.", stop=["7"]), _ends("stop", without="7")),
    ("cut by max_tokens", _chat("Count to thirty.", max_tokens=5), _ends("length")),
    ("cut inside a character", _chat("Say something with emoji.", max_tokens=3), _ends("length")),
    ("cut inside a tool call", _chat(_PARIS, tools=[WEATHER], max_tokens=10), _ends("length")),
)
_COMPLETIONS: Final = (
    ("plain", {"prompt": "Once upon a time"}, _says(" there was a tiny model.")),
    ("logprobs", {"prompt": "Once upon a time", "logprobs": 2}, _logprobs),
    ("logprobs of 0", {"prompt": "Once upon a time", "logprobs": 0}, _logprobs),
    ("multi-byte text", {"prompt": _turn("Say something with emoji.")}, _says("🙂 naïve 你好世界 👩‍🔬")),
    ("stop string", {"prompt": _turn("Count to thirty."), "stop": ["7"]}, _ends("stop", without="7")),
    ("cut by max_tokens", {"prompt": "Once upon a time", "max_tokens": 3}, _ends("length")),
    ("prompt as ids", {"prompt": [12522, 5193, 264, 882]}, _says(" there was a tiny model.")),
    ("two prompts", {"prompt": ["Once upon a time", "The quick brown fox"]}, _choices(2)),
)

CASES: Final[tuple[Case, ...]] = (
    *(Case(name, "chat", body, shows) for name, body, shows in _CHAT),
    Case("n = 2", "chat", _chat("Say hello.", n=2, max_tokens=8), _choices(2), sampled=True),
    Case("refused", "chat", {**_chat("Say hello."), "temperature": "hot"}, _choices(0)),
    Case("usage not asked", "chat", _chat("Say hello."), _says("Hello!"), usage=False, streamed_only=True),
    *(Case(name, "completions", {"max_tokens": 64, **body}, shows) for name, body, shows in _COMPLETIONS),
    Case("refused", "completions", {"prompt": "Once upon a time", "temperature": "hot"}, _choices(0)),
    Case("n = 2", "completions", {"prompt": "Once upon a time", "n": 2, "max_tokens": 8}, _choices(2), sampled=True),
)
