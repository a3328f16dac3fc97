"""The checks, as data: a name, what it shows, and the function that asks and judges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from adapters.schema import Completion
from adapters.token_ids import TokenIds
from gateway.verify.asking import Asker, Heard, NotHeard
from gateway.verify.finding import Finding, cannot, failed, passed

PLAIN: Final = "Count from one to ten in words."
_TOOL_PROMPT: Final = "What is the weather in Paris? Use the tool."
_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Get the current weather in a city.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        },
    }
]


class Decoder(Protocol):
    """A model's tokenizer, as far as a check needs it."""

    def decode(self, ids: TokenIds) -> str:
        """Text without special tokens."""
        ...


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    shows: str
    run: Callable[[Asker, Decoder | None], Awaitable[Finding]]

    async def finding(self, asker: Asker, decoder: Decoder | None) -> Finding:
        try:
            return await self.run(asker, decoder)
        except NotHeard as exc:
            return cannot(f"the server refuses it: {exc}") if exc.refused else failed(str(exc))


async def _prompt_ids(asker: Asker, _: Decoder | None) -> Finding:
    told = 0
    for heard in await asker.both(PLAIN):
        ids, usage = heard.completion.prompt_token_ids, heard.completion.usage
        if ids is None:
            return cannot(f"a {heard.how} answer does not tell them")
        if usage is None or usage.prompt_tokens is None or heard.completion.usage_estimated:
            return cannot(f"a {heard.how} answer does not count them")
        if usage.prompt_tokens != len(ids):
            return failed(f"a {heard.how} answer tells {len(ids)} and counts {usage.prompt_tokens}")
        told = len(ids)
    return passed(f"{told} ids, as counted")


async def _counts(asker: Asker, _: Decoder | None) -> Finding:
    answers = await asker.both(PLAIN)
    return next((found for heard in answers if (found := _miscounted(heard))), None) or passed(
        ", ".join(f"{heard.how}: {_total(heard.completion)}" for heard in answers)
    )


async def _streamed_as_whole(asker: Asker, _: Decoder | None) -> Finding:
    whole, streamed = await asker.both(PLAIN)
    found = _same(whole, streamed)
    if found is not None or streamed.plan.mode == "streamed":
        return found or passed(f"{_total(whole.completion)} ids")
    # The gateway would rather not stream here; what a stream would tell is looked at all the same.
    buffered = f"streams are buffered: {streamed.plan.reason}"
    real = await asker.ask(PLAIN, stream=True, capture="ids")
    if real.plan.mode != "streamed":
        return passed(buffered)
    return _same(whole, real) or passed(f"{_total(real.completion)} ids; {buffered}")


async def _decodes(asker: Asker, decoder: Decoder | None) -> Finding:
    if decoder is None:
        return cannot("no tokenizer was given: --tokenizer PATH")
    for heard in await asker.both(PLAIN):
        ids = heard.choice.token_ids
        if ids is None:
            return cannot(heard.without_ids)
        decoded = decoder.decode(ids)
        for text in (heard.choice.reasoning, heard.choice.text):
            if (text or "").strip() not in decoded:
                return failed(f"a {heard.how} answer's ids say {decoded!r}, its text {text!r}")
    return passed(repr(decoded if len(decoded) < 40 else f"{decoded[:39]}…"))


async def _tools(asker: Asker, _: Decoder | None) -> Finding:
    whole, streamed = await asker.both(_TOOL_PROMPT, tools=_TOOLS)
    found = _miscounted(whole) or _miscounted(streamed) or _same(whole, streamed)
    if found is not None:
        return found
    called = "a call was made" if whole.choice.tool_calls else "though no call was made"
    try:
        unparsed = await asker.ask(_TOOL_PROMPT, stream=False, tools=_TOOLS, tool_choice="none")
    except NotHeard:
        unparsed = None
    if unparsed is None or unparsed.completion.prompt_token_ids != whole.completion.prompt_token_ids:
        return passed(f"complete, whole and streamed; {called}")
    # The same prompt, and no parser at work: the sampled ids have to be the same.
    return _same(unparsed, whole) or passed(f"complete, whole and streamed, and as without a parser; {called}")


async def _two_choices(asker: Asker, _: Decoder | None) -> Finding:
    # Some refuse several greedy choices, which would be equal.
    for heard in await asker.both(PLAIN, n=2, temperature=1.0):
        indexes = sorted(choice.index for choice in heard.completion.choices)
        if indexes not in ([0, 1], [0]):
            return failed(f"a {heard.how} answer has the choices {indexes}")
        found = _miscounted(heard)
        if found is not None:
            return found
        if indexes == [0]:
            return cannot("the server gives one choice, whatever n is")
    return passed("each choice has its own ids, as many as counted in all")


async def _logprobs(asker: Asker, _: Decoder | None) -> Finding:
    answers = await asker.both(PLAIN)
    for heard in answers:
        if heard.choice.token_ids is None:
            return cannot(heard.without_ids)
        if not heard.plan.logprobs_asked:
            return cannot("the server gives none, so none are asked for")
        if heard.outcome.verdict.logprobs_fidelity != "exact":
            return failed(f"a {heard.how} answer has none: {heard.outcome.verdict.logprobs_reason}")
    return passed(f"one for each id, {answers[0].completion.logprobs_mode or 'of unknown mode'}")


CHECKS: Final = (
    Check("prompt ids", "the prompt's ids are told, as many as counted", _prompt_ids),
    Check("counts", "as many completion ids as usage counts", _counts),
    Check("streamed as whole", "a greedy answer has the same prompt and completion ids either way", _streamed_as_whole),
    Check("ids and text", "the ids decode to the text", _decodes),
    Check("tools", "with tools offered the ids are complete and the same", _tools),
    Check("n = 2", "two choices are kept apart", _two_choices),
    Check("logprobs", "one logprob for each sampled id", _logprobs),
)


def _total(completion: Completion) -> int:
    return sum(len(choice.token_ids or ()) for choice in completion.choices)


def _miscounted(heard: Heard) -> Finding | None:
    completion = heard.completion
    if any(choice.token_ids is None for choice in completion.choices):
        return cannot(heard.without_ids)
    usage = completion.usage
    if usage is None or usage.completion_tokens is None or completion.usage_estimated:
        return cannot(f"a {heard.how} answer does not count")
    if usage.completion_tokens != _total(completion):
        return failed(f"a {heard.how} answer has {_total(completion)} ids and counts {usage.completion_tokens}")
    return None


def _same(first: Heard, second: Heard) -> Finding | None:
    """Null where two answers have the same prompt and completion ids."""
    for heard in (first, second):
        if heard.choice.token_ids is None:
            return cannot(heard.without_ids)
    pairs = (
        ("prompt", first.completion.prompt_token_ids, second.completion.prompt_token_ids),
        ("completion", first.choice.token_ids, second.choice.token_ids),
    )
    for name, one, other in pairs:
        if one is not None and other is not None and one != other:
            at = _first_difference(one, other)
            return failed(f"{name} ids differ from number {at} on ({len(one)} {first.how}, {len(other)} {second.how})")
    return None


def _first_difference(one: TokenIds, other: TokenIds) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
