"""Chunks fold into the shape of a whole answer, per choice: one rule a field, in tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from msgspec import Raw

from adapters.answer_shape import Chunk, ChunkChoice, WholeAnswer
from adapters.mould import Mould, Values
from adapters.raw import NULL, Fields, join_array, join_object
from adapters.rules import FirstOfAny, Ignored, Joined, Members, Odd, Rule, Text, members
from adapters.schema import Error
from adapters.tools import ToolCalls

MAX_CHOICES: Final = 1024
"""More than anyone asks for; what an engine says of a choice beyond is dropped, and the answer is not exact."""
_MAX_ANOMALIES: Final = 20
_AT_ONCE: Final = 4096
"""Values of chunks alike that wait to be folded together. Until then they hold the bytes that they came in."""


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


class Folding(NamedTuple):
    """What has been folded of one choice, and of the root that all share."""

    root: Members
    choice: Members
    delta: Members
    beside: Members


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
        self._values: Values = []

    @property
    def finished(self) -> bool:
        """Whether every choice that was asked for has its end."""
        return self._finished >= self._expected

    @property
    def error(self) -> Error | None:
        return self._error

    def told(self, name: str) -> bool:
        """Whether a root field has been told, and not as null."""
        return self._root.told(name)

    def folding(self, index: int) -> Folding | None:
        """What has been folded of this choice; None where nothing has."""
        choice = self._choices.get(index)
        if choice is None:
            return None
        return Folding(self._root, choice.fields, choice.message or Members({}), choice.beside)

    def add_alike(self, mould: Mould, values: Values) -> None:
        """Chunks of a mould, which is of a choice that was folded before. They wait for more of them."""
        if mould is not self._mould or len(self._values) > _AT_ONCE:
            self._fold_alike()
            self._mould = mould
        self._values += values

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
        self._fold_alike()  # What was odd before comes before.
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
        """The chunks that wait, a column of values at a time."""
        mould, values = self._mould, self._values
        if mould is None or not values:
            return
        self._values = []
        try:
            additions = [folded.adding(values[slot :: mould.width]) for slot, folded in mould.targets]
        except Odd:
            for chunk in mould.opened(values):
                self._add(chunk)
        else:
            for add in additions:
                add()

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
