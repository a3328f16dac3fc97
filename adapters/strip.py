"""The agent's bytes of an answer: without what only the plan asked for, and nothing else reprinted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Raw

from adapters.answer_shape import Chunk, ChunkChoice, WholeAnswer
from adapters.openai_shape import Shape, ToldIds, told_ids
from adapters.plan import NOTHING, Plan
from adapters.raw import NULL, Fields, NotJSON, integer, join_array, join_object, open_object, open_objects, told
from adapters.schema import Choice, Completion
from adapters.token_ids import TokenIds

_CHOICES: Final = b'"choices":'
_EMPTY_LIST: Final = Raw(b"[]")
_BOOKKEEPING: Final = frozenset({"id", "object", "created", "model", "choices", "system_fingerprint", "service_tier"})
"""What every chunk says of itself: a chunk with nothing else left is not sent."""


class Stripper:
    """Takes out of chunks and bodies what the plan's flags bring, and puts in what the agent's own flag asks for."""

    def __init__(self, plan: Plan, shape: Shape) -> None:
        self._shape = shape
        self._strip = plan.strip
        self._inject = plan.inject_token_ids
        self._told: set[int] = set()
        self._completions = plan.request.endpoint == "completions"
        self._nothing = {"text": Raw(b'""')} if self._completions else {"delta": Raw(b"{}")}
        self._nested = dict(plan.strip.nested)
        self._root = plan.strip.root | self._nested.keys() | ({"usage"} if plan.strip.usage else set())
        self._untouched = plan.strip == NOTHING and not plan.inject_token_ids

    def goes_by_layout(self, varying: Iterable[tuple[str, ...]]) -> bool:
        """Whether chunks that differ in the values at these paths alone are stripped alike."""
        if self._inject or self._strip.top_logprobs:
            return False
        return not any(len(path) == 1 and path[0] in self._nested for path in varying)

    def chunk(self, chunk: Chunk, data: bytes) -> bytes:
        """The chunk's JSON for the agent; empty when there is nothing in it for the agent."""
        if self._untouched:
            return data
        root, cut = self._fields_of(chunk.root)
        kept: list[Fields] = []
        for choice in chunk.choices:
            fields, choice_cut = self._choice(choice.fields, choice.delta, "delta")
            if choice_cut and not self._inject and _says_nothing(choice, fields):
                cut = True
            else:
                kept.append(fields)
        if self._inject:
            ids = told_ids(chunk, self._shape, self._told)
            self._told |= ids.choices.keys()
            self._put_told_ids(root, kept, ids)
        if cut and not kept and not any(told(raw) for name, raw in root.items() if name not in _BOOKKEEPING):
            return b""
        if chunk.choices or kept:
            choices = join_array(map(join_object, kept))
            if root is chunk.root and "choices" in root:
                return _with_choices(data, root, choices)
            root = {**root, "choices": Raw(choices)}
        return data if root is chunk.root else join_object(root)

    def whole(self, answer: WholeAnswer, completion: Completion) -> bytes:
        """The whole answer's JSON for the agent, of a body or of what a stream folded into."""
        if self._untouched and answer.body is not None:
            return answer.body
        root = dict(self._fields_of(dict(answer.root))[0])
        told_choices = {choice.index: choice for choice in completion.choices}
        choices: list[bytes] = []
        for position, given in enumerate(answer.choices):
            fields, _ = self._choice(given, _opened(given.get("message")), "message")
            if self._inject:
                index = completion.choices[position].index if position < len(completion.choices) else -1
                self._put_ids(fields, told_choices.get(index), completion.prompt_token_ids)
            choices.append(join_object(fields))
        if answer.choices or "choices" in root:
            root["choices"] = Raw(join_array(choices))
        if self._inject and not self._completions:
            root["prompt_token_ids"] = _listed(completion.prompt_token_ids)
        return join_object(root)

    def _put_told_ids(self, root: Fields, choices: list[Fields], ids: ToldIds) -> None:
        """As below, in a chunk. Ids that came after their choice's end get an entry of their own."""
        by_index = {integer(fields.get("index")): fields for fields in choices}
        for index, raw in ids.choices.items():
            fields = by_index.get(index)
            if fields is None:
                fields = {"index": Raw(str(index).encode()), "finish_reason": NULL, **self._nothing}
                choices.append(fields)
            fields["token_ids"] = raw
        if ids.prompt is None:
            return
        for fields in choices if self._completions else [root]:
            fields["prompt_token_ids"] = ids.prompt

    def _put_ids(self, fields: Fields, choice: Choice | None, prompt: TokenIds | None) -> None:
        """vLLM's places: completions have both kinds of id on the choice, chat has the prompt's at the root."""
        if choice is None:
            return
        fields["token_ids"] = _listed(choice.token_ids)
        if self._completions:
            fields["prompt_token_ids"] = _listed(choice.prompt_token_ids or prompt)

    def _fields_of(self, given: Fields) -> tuple[Fields, bool]:
        """The root without what is not the agent's (the same, when there is none), and whether anything told went."""
        if not self._inject and self._root.isdisjoint(given):
            return given, False
        kept: Fields = {}
        cut = False
        for name, raw in given.items():
            if name not in self._root:
                kept[name] = raw
            elif name in self._nested and name not in self._strip.root:
                inner = _without(raw, self._nested[name])
                cut = cut or inner is not raw
                if inner is not None:
                    kept[name] = inner
            elif name == "usage" and raw == NULL:
                # Engines that write this (SGLang 0.5.9, Dynamo's completions) do so whether usage is asked for or not.
                kept[name] = raw
            else:
                cut = cut or told(raw)
        return kept, cut

    def _choice(self, given: Mapping[str, Raw], inner: Mapping[str, Raw] | None, name: str) -> tuple[Fields, bool]:
        strip = self._strip
        fields = dict(given)
        cut = False
        for key in strip.choice:
            if key in fields:
                cut |= fields.pop(key) != NULL
        for key in strip.nulled:
            if fields.get(key, NULL) != NULL:
                fields[key] = NULL
                cut = True
        if strip.delta and inner is not None and not strip.delta.isdisjoint(inner):
            cut = cut or any(told(inner.get(key)) for key in strip.delta)
            fields[name] = Raw(join_object({key: raw for key, raw in inner.items() if key not in strip.delta}))
        if strip.top_logprobs and told(logprobs := fields.get("logprobs")):
            fields["logprobs"] = _without_top(logprobs)
        return fields, cut


def _with_choices(data: bytes, root: Fields, choices: bytes) -> bytes:
    """The chunk with other choices. Cut out where they stand, which is cheaper by half than to join the root again."""
    given = bytes(root["choices"])
    start = data.find(_CHOICES) + len(_CHOICES)
    if data.count(_CHOICES) == 1 and data.startswith(given, start):
        return data[:start] + choices + data[start + len(given) :]
    return join_object({**root, "choices": Raw(choices)})


def _says_nothing(choice: ChunkChoice, fields: Fields) -> bool:
    """Whether this is a chunk that the engine sent for the sake of our flags alone."""
    delta = choice.delta
    if delta is None or "text" in fields:
        return False
    if "delta" in fields and fields["delta"] is not choice.fields.get("delta"):
        delta = _opened(fields["delta"]) or {}
    # Plain loops: this runs for every token.
    for raw in delta.values():
        if raw != NULL:
            return False
    return all(raw == NULL or name in ("index", "delta") for name, raw in fields.items())


def _without(raw: Raw, names: frozenset[str]) -> Raw | None:
    """An object without these members; None when nothing is left of it."""
    fields = _opened(raw)
    if fields is None or names.isdisjoint(fields):
        return raw
    kept = {name: value for name, value in fields.items() if name not in names}
    return Raw(join_object(kept)) if any(told(value) for value in kept.values()) else None


def _without_top(raw: Raw) -> Raw:
    """Chat logprobs with each entry's `top_logprobs` emptied."""
    try:
        logprobs = open_object(raw)
        for name in ("content", "refusal"):
            if told(entries := logprobs.get(name)):
                opened = [
                    {**entry, "top_logprobs": _EMPTY_LIST} if "top_logprobs" in entry else entry
                    for entry in open_objects(entries)
                ]
                logprobs[name] = Raw(join_array(map(join_object, opened)))
    except NotJSON:
        return raw
    return Raw(join_object(logprobs))


def _opened(raw: Raw | None) -> Fields | None:
    try:
        return open_object(raw) if told(raw) else None
    except NotJSON:
        return None


def _listed(ids: TokenIds | None) -> Raw:
    return NULL if ids is None else Raw(ids.json())
