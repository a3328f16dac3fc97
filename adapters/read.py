"""One reading of every answer of the OpenAI shape, folded from a stream or whole: into a `Completion`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Raw

from adapters.answer_shape import WholeAnswer
from adapters.openai_shape import Shape, loose_text, reasoning_of, stop_reason_of
from adapters.places import BadValue, Place
from adapters.plan import Plan
from adapters.prompts import ReadIds
from adapters.raw import TRUE, NotJSON, decode, integer, open_object, text, told
from adapters.routed_experts import routed_experts
from adapters.schema import Choice, Completion, LogprobsMode, RoutedExperts, ToolCall, Usage, WeightSpan
from adapters.token_ids import TokenIds
from adapters.tokens import ChoiceTokens, TokensRead
from adapters.tools import tool_calls

_NO_IDS: Final = "there are no token ids that logprobs could belong to"


def read_answer(
    answer: WholeAnswer,
    plan: Plan,
    shape: Shape,
    logprobs_mode: LogprobsMode = "raw",
    prompt_ids: ReadIds = TokenIds.from_json,
) -> Completion:
    """Never raises for what an engine may say: what cannot be read is null, and an anomaly says so."""
    return _Reading(answer, plan, shape, prompt_ids).completion(logprobs_mode)


class _Reading:
    def __init__(self, answer: WholeAnswer, plan: Plan, shape: Shape, prompt_ids: ReadIds) -> None:
        self.answer = answer
        self.request = plan.request
        self.shape = shape
        self.prompt_ids = prompt_ids
        self.asked = plan.logprobs_asked
        self.anomalies = list(answer.anomalies)
        self.indexes = [integer(fields.get("index")) or 0 for fields in answer.choices]
        self.prompt_read: tuple[Raw, TokenIds] | None = None

    def completion(self, logprobs_mode: LogprobsMode) -> Completion:
        answer, request = self.answer, self.request
        prompts = [self.prompt(position) for position in range(len(answer.choices))]
        tokens = [self.tokens(position, prompt) for position, prompt in enumerate(prompts)]
        choices = tuple(
            self.choice(position, tokens[position], prompts[position] if request.prompts > 1 else None)
            for position in range(len(answer.choices))
        )
        return Completion(
            choices=choices,
            prompt_token_ids=self.shared_prompt(prompts) if request.prompts == 1 else None,
            served_model=text(answer.root.get("model")),
            usage=read_usage(answer.root.get("usage")),
            source=next((told.source for told in tokens if told.source), None),
            logprobs_mode=logprobs_mode if any(choice.logprobs is not None for choice in choices) else None,
            error=answer.error,
            anomalies=tuple(dict.fromkeys(self.anomalies)),
            logprobs_reason=next((told.logprobs_reason for told in tokens if told.logprobs_reason), None),
        )

    def choice(self, position: int, tokens: TokensRead, prompt: TokenIds | None) -> Choice:
        fields = self.answer.of_choice(position)
        message = self.message(fields)
        return Choice(
            index=self.indexes[position],
            token_ids=tokens.token_ids,
            logprobs=tokens.logprobs,
            text=self.text(fields, message),
            reasoning=loose_text(reasoning_of(message)) if message is not None else None,
            tool_calls=self.tool_calls(message),
            finish_reason=_finish_reason(fields.get("finish_reason")),
            stop_reason=stop_reason_of(fields, self.shape),
            prompt_token_ids=prompt,
            weight_versions=self.weight_versions(fields.get("weight_versions")),
            routed_experts=_routed_experts(fields.get("routed_experts")),
        )

    def message(self, fields: Mapping[str, Raw]) -> Mapping[str, Raw] | None:
        raw = fields.get("message")
        if not told(raw):
            return None
        try:
            return open_object(raw)
        except NotJSON:
            self.anomalies.append("a message is not an object")
            return None

    def text(self, fields: Mapping[str, Raw], message: Mapping[str, Raw] | None) -> str | None:
        """A message without content says nothing: "". Null is for answers that have no text at all."""
        if message is not None:
            return loose_text(message.get("content")) or ""
        return loose_text(fields.get("text"))

    def tool_calls(self, message: Mapping[str, Raw] | None) -> tuple[ToolCall, ...] | None:
        raw = message.get("tool_calls") if message is not None else None
        if not told(raw):
            return None
        try:
            return tool_calls(raw) or None
        except NotJSON as exc:
            self.anomalies.append(f"tool calls that cannot be read: {exc}")
            return None

    def tokens(self, position: int, prompt: TokenIds | None) -> TokensRead:
        echoes = self.request.fields.get("echo") == TRUE
        answer = self.answer
        reading = ChoiceTokens(self.shape, answer.root, answer.of_choice(position), self.indexes[position], answer.read)
        tokens = reading.read(echoed=len(prompt) if echoes and prompt is not None else 0)
        self.anomalies += reading.anomalies
        if tokens.token_ids is None and self.asked:
            return TokensRead(logprobs_reason=_NO_IDS)
        return tokens

    def prompt(self, position: int) -> TokenIds | None:
        """The prompt's ids as the engine gives them with a choice, or as the caller sent them."""
        choice, index = self.answer.of_choice(position), self.indexes[position]
        found: TokenIds | None = None
        for place in self.shape.prompt:
            ids = self.prompt_at(place, choice, index)
            if found is None:
                found = ids
            elif ids is not None and ids != found:
                self.anomalies.append(f"prompt ids are told twice and differ ({len(found)} and {len(ids)})")
        return found if found is not None else self.sent_prompt(index)

    def prompt_at(self, place: Place, choice: Mapping[str, Raw], index: int) -> TokenIds | None:
        """The choices of a prompt repeat it, one after the other: a long one is decoded once."""
        try:
            raw = place.find(self.answer.root, choice, index)
            if raw is None:
                return None
            if self.prompt_read is None or self.prompt_read[0] != raw:
                self.prompt_read = raw, place.token_ids(raw, self.prompt_ids)
            return self.prompt_read[1]
        except BadValue as exc:
            self.anomalies.append(f"prompt: {exc}")
            return None

    def sent_prompt(self, index: int) -> TokenIds | None:
        sent = self.request.prompt_token_ids
        if sent is None:
            return None
        prompt = index // self.request.n
        return sent[prompt] if prompt < len(sent) else None

    def shared_prompt(self, prompts: list[TokenIds | None]) -> TokenIds | None:
        known = [ids for ids in prompts if ids is not None]
        if any(ids != known[0] for ids in known):
            self.anomalies.append("the choices of one prompt tell different prompt ids")
        if known:
            return known[0]
        return self.prompt_without_choices()

    def prompt_without_choices(self) -> TokenIds | None:
        """Of an answer that was cut before its first choice."""
        for place in self.shape.prompt:
            if place.at == "root" and (ids := self.prompt_at(place, {}, 0)) is not None:
                return ids
        return self.sent_prompt(0)

    def weight_versions(self, raw: Raw | None) -> tuple[WeightSpan, ...] | None:
        if not told(raw):
            return None
        try:
            spans = decode(raw, _spans)
        except NotJSON as exc:
            self.anomalies.append(f"weight versions that cannot be read: {exc}")
            return None
        return tuple(WeightSpan(str(span.version), span.start, span.end) for span in spans)


class _Span(msgspec.Struct, frozen=True):
    version: str | int
    start: int
    end: int


_spans = msgspec.json.Decoder(list[_Span])


def read_usage(raw: Raw | None) -> Usage | None:
    """The engine's own count. A number that is none is null: not told."""
    if not told(raw):
        return None
    try:
        fields = open_object(raw)
    except NotJSON:
        return None
    return Usage(
        prompt_tokens=_count(fields, "prompt_tokens"),
        completion_tokens=_count(fields, "completion_tokens"),
        total_tokens=_count(fields, "total_tokens"),
        cached_tokens=_count(_inner(fields, "prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=_count(_inner(fields, "completion_tokens_details"), "reasoning_tokens")
        if told(fields.get("completion_tokens_details"))
        else _count(fields, "reasoning_tokens"),
    )


def _count(fields: Mapping[str, Raw], name: str) -> int | None:
    number = integer(fields.get(name))
    return number if number is not None and number >= 0 else None


def _inner(fields: Mapping[str, Raw], name: str) -> Mapping[str, Raw]:
    raw = fields.get(name)
    try:
        return open_object(raw) if told(raw) else {}
    except NotJSON:
        return {}


def _finish_reason(raw: Raw | None) -> str | None:
    """A word; native endpoints give an object with the word under `type`."""
    if not told(raw):
        return None
    word = text(raw)
    if word is not None:
        return word
    try:
        return text(open_object(raw).get("type"))
    except NotJSON:
        return None


def _routed_experts(raw: Raw | None) -> RoutedExperts | None:
    encoded = text(raw)
    return None if encoded is None else routed_experts(encoded)
