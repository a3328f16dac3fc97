"""A whole answer or a stream's chunks as what an agent makes of them: the same value for both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Spoken:
    """One choice as an agent has it. A stream can't tell an empty text from none, so neither is told here."""

    index: int
    text: str
    reasoning: str
    tool_calls: tuple[tuple[str, str], ...]
    """Names and arguments."""
    finish_reason: str | None
    logprobs: tuple[Any, ...]
    """Chat: its entries. Completions: (token, logprob) pairs."""

    @property
    def everything(self) -> str:
        return self.reasoning + self.text


@dataclass(frozen=True, slots=True)
class Folded:
    choices: tuple[Spoken, ...]
    usage: Document | None
    model: str | None


@dataclass(slots=True)
class _Growing:
    text: str = ""
    reasoning: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict)
    finish_reason: str | None = None
    logprobs: list[Any] = field(default_factory=list)

    def add(self, choice: Document) -> None:
        message = choice.get("delta") or choice.get("message") or {}
        self.text += message.get("content") or choice.get("text") or ""
        self.reasoning += message.get("reasoning") or message.get("reasoning_content") or ""
        for position, call in enumerate(message.get("tool_calls") or ()):
            # A whole answer's calls need no index; a stream's fragments are told apart by nothing else.
            place = call.get("index") if call.get("index") is not None and "delta" in choice else position
            name_and_arguments = self.calls.setdefault(place, ["", ""])
            function = call.get("function") or {}
            name_and_arguments[0] += function.get("name") or ""
            name_and_arguments[1] += function.get("arguments") or ""
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.logprobs += _entries(choice.get("logprobs") or {})


def _entries(logprobs: Document) -> Iterator[Any]:
    yield from logprobs.get("content") or ()
    yield from zip(logprobs.get("tokens") or (), logprobs.get("token_logprobs") or (), strict=False)


def fold(documents: Sequence[Document]) -> Folded:
    """Of one document (a whole answer) or many (the chunks of a stream, in order)."""
    growing: dict[int, _Growing] = {}
    usage: Document | None = None
    model: str | None = None
    for document in documents:
        usage = _told(document.get("usage")) or usage
        model = document.get("model") or model
        for choice in document.get("choices") or ():
            growing.setdefault(choice["index"], _Growing()).add(choice)
    return Folded(tuple(_spoken(index, each) for index, each in sorted(growing.items())), usage, model)


def _told(usage: Document | None) -> Document:
    """Its counts; a null in the place of details says as much as no such place, and some agents can't read it."""
    return {name: count for name, count in (usage or {}).items() if count is not None}


def _spoken(index: int, grown: _Growing) -> Spoken:
    calls = tuple((name, arguments) for _, (name, arguments) in sorted(grown.calls.items()))
    return Spoken(index, grown.text, grown.reasoning, calls, grown.finish_reason, tuple(grown.logprobs))
