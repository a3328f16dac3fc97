"""Chunks fold into the shape of a whole answer, per choice: one rule a field, in tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Raw

from adapters.answer_shape import Chunk, ChunkChoice, WholeAnswer
from adapters.mould import Level, Mould, Values
from adapters.raw import NULL, Fields, join_array, join_object
from adapters.rules import FirstOfAny, Ignored, Joined, Members, Rule, Text, members
from adapters.schema import Error
from adapters.tools import ToolCalls

MAX_CHOICES: Final = 1024
"""More than anyone asks for; what an engine says of a choice beyond is dropped, and the answer is not exact."""
_MAX_ANOMALIES: Final = 20
_AT_ONCE: Final = 256
"""Chunks alike that wait to be folded: until then each holds its own bytes."""


LOGPROBS: Final[Rule] = members({"refusal": Joined}, default=Joined)
"""Both OpenAI shapes: an object of parallel lists."""


@dataclass(frozen=True, slots=True)
class FoldRules:
    """How each field of an engine's chunks folds; a field without a rule keeps its last value that is not null."""

    root: Mapping[str, Rule] = field(default_factory=dict)
    choice: Mapping[str, Rule] = field(default_factory=dict)
    delta: Mapping[str, Rule] = field(default_factory=dict)


OPENAI_RULES: Final = FoldRules(
    root={"id": FirstOfAny, "object": FirstOfAny, "created": FirstOfAny, "model": FirstOfAny, "choices": Ignored},
    choice={"index": Ignored, "delta": Ignored, "text": Text, "logprobs": LOGPROBS},
    delta={
        "role": FirstOfAny,
        "content": Text,
        "reasoning": Text,
        "reasoning_content": Text,
        "refusal": Text,
        "tool_calls": ToolCalls,
    },
)
"""What every server of the OpenAI shape does; engines add theirs with `rules_with`."""


def rules_with(
    *,
    root: Mapping[str, Rule] | None = None,
    choice: Mapping[str, Rule] | None = None,
    delta: Mapping[str, Rule] | None = None,
) -> FoldRules:
    """The OpenAI rules with an engine's own beside them."""
    return FoldRules(
        root={**OPENAI_RULES.root, **(root or {})},
        choice={**OPENAI_RULES.choice, **(choice or {})},
        delta={**OPENAI_RULES.delta, **(delta or {})},
    )


class _FoldingChoice:
    __slots__ = ("beside", "fields", "finished", "message")

    def __init__(self, rules: FoldRules) -> None:
        self.fields = Members(rules.choice)
        self.beside = Members(rules.choice)
        self.message: Members | None = None
        self.finished = False


class Fold:
    """The answer as its chunks so far have told it, per choice."""

    def __init__(self, rules: FoldRules, expected_choices: int) -> None:
        self._rules = rules
        self._expected = expected_choices
        self._root = Members(rules.root)
        self._choices: dict[int, _FoldingChoice] = {}
        self._finished = 0
        self._error: Error | None = None
        self._anomalies: list[str] = []
        self._mould: Mould | None = None
        self._alike: list[Values] = []

    @property
    def finished(self) -> bool:
        """Whether every choice that was asked for has its end."""
        return self._finished >= self._expected

    @property
    def error(self) -> Error | None:
        return self._error

    def told(self, name: str) -> bool:
        """Whether a root field has been told, and not as null."""
        self._fold_alike()
        return self._root.told(name)

    def add_alike(self, mould: Mould, values: Values) -> None:
        """A chunk of a mould. Many of them are folded at once, a field at a time."""
        if mould is not self._mould or len(self._alike) >= _AT_ONCE:
            self._fold_alike()
            self._mould = mould
        self._alike.append(values)

    def add(self, chunk: Chunk) -> None:
        self._fold_alike()
        self._add(chunk)

    def _add(self, chunk: Chunk) -> None:
        for reason in chunk.odd:
            self.odd(reason)
        if chunk.error is not None:
            self.fail(chunk.error)
        for reason in self._root.add_fields(chunk.root):
            self.odd(reason)
        seen: set[int] | None = set() if len(chunk.choices) > 1 else None
        for told in chunk.choices:
            if seen is not None:
                if told.index in seen:
                    self.odd(f"choice {told.index} stands twice in one chunk")
                seen.add(told.index)
            self._add_choice(told)

    def fail(self, error: Error) -> None:
        """The engine has told an error: the first one counts."""
        self._error = self._error or error

    def odd(self, reason: str) -> None:
        if len(self._anomalies) < _MAX_ANOMALIES and reason not in self._anomalies:
            self._anomalies.append(reason)

    def answer(self) -> WholeAnswer:
        """All that was told so far, as one answer."""
        self._fold_alike()
        indexes = sorted(self._choices)
        choices = tuple(_closed(index, self._choices[index]) for index in indexes)
        root = self._root.fields()
        root["choices"] = Raw(join_array(join_object(fields) for fields in choices))
        if (kind := root.get("object")) == Raw(b'"chat.completion.chunk"'):
            root["object"] = Raw(bytes(kind).replace(b".chunk", b""))
        return WholeAnswer(
            root=root,
            choices=choices,
            beside=tuple(self._choices[index].beside.fields() for index in indexes),
            error=self._error,
            anomalies=tuple(self._anomalies),
        )

    def _fold_alike(self) -> None:
        mould, rows = self._mould, self._alike
        if mould is None or not rows:
            return
        self._alike = []
        for first, *others in mould.by_choice(rows):
            opened = mould.opened(first)
            self._add(opened)
            if not others:
                continue
            levels = self._levels(opened)
            if levels is None or not all(levels[level].has(path) for _, level, path in mould.targets):
                for values in others:
                    self._add(mould.opened(values))
                continue
            index = opened.choices[0].index
            columns = list(zip(*others, strict=True))
            for slot, level, path in mould.targets:
                for reason in levels[level].extend(path, columns[slot]):
                    self.odd(reason if level == "root" else f"choice {index}: {reason}")

    def _levels(self, chunk: Chunk) -> dict[Level, Members] | None:
        """What has been folded of the one choice that this chunk is of; None where nothing has."""
        choice = self._choices.get(chunk.choices[0].index) if chunk.choices else None
        if choice is None:
            return None
        return {
            "root": self._root,
            "choice": choice.fields,
            "delta": choice.message or Members({}),
            "beside": choice.beside,
        }

    def _add_choice(self, told: ChunkChoice) -> None:
        choice = self._choices.get(told.index)
        if choice is None:
            if told.index >= self._expected:
                self.odd(f"choice {told.index} was not asked for ({self._expected} were)")
            if len(self._choices) >= max(MAX_CHOICES, self._expected):
                return
            choice = self._choices[told.index] = _FoldingChoice(self._rules)
        for reason in choice.fields.add_fields(told.fields):
            self.odd(f"choice {told.index}: {reason}")
        if told.delta is not None:
            if choice.message is None:
                choice.message = Members(self._rules.delta)
            for reason in choice.message.add_fields(told.delta):
                self.odd(f"choice {told.index}: {reason}")
        if told.beside:
            for reason in choice.beside.add_fields(told.beside):
                self.odd(f"choice {told.index}: {reason}")
        if not choice.finished and choice.fields.told("finish_reason"):
            choice.finished = True
            self._finished += 1


def _closed(index: int, choice: _FoldingChoice) -> Fields:
    closed: Fields = {"index": Raw(str(index).encode())}
    if choice.message is not None:
        closed["message"] = Raw(join_object(_message(choice.message.fields())))
    for name, raw in choice.fields.fields().items():
        if name != "delta":
            closed.setdefault(name, raw)
    closed.setdefault("finish_reason", NULL)
    return closed


def _message(fields: Fields) -> Fields:
    """A role chunk says `content: ""` before anyone knows whether there will be any; a whole answer then says null."""
    empty = fields.get("content", Raw(b'""')) == Raw(b'""')
    if empty and any(name in fields for name in ("tool_calls", "reasoning", "reasoning_content")):
        fields["content"] = NULL
    return fields
