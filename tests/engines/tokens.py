"""Whether a trace holds what the engine sampled: against the engine's own word, the counts and the text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from tests.engines.cases import Case
from tests.engines.folding import Folded, Spoken
from tests.engines.truth import Sampled

Trace = Mapping[str, Any]
_HALF = "\N{REPLACEMENT CHARACTER}"


class Tokenizer(Protocol):
    def decode(self, ids: Sequence[int], /, *, skip_special_tokens: bool = True) -> str: ...


def differences(
    trace: Trace, case: Case, truth: Sequence[Sampled], seen: Folded, tokenizer: Tokenizer
) -> Iterator[str]:
    """Every way in which the trace is wrong about its tokens. What it leaves out is not wrong: its verdict says so."""
    per_prompt = len(trace["choices"]) // len(truth)
    for choice in trace["choices"]:
        place = f"choice {choice['index']}"
        expected = truth[choice["index"] // max(per_prompt, 1)]
        yield from _prompt(trace, choice, expected, place, several=len(truth) > 1)
        if choice["token_ids"] is not None:
            yield from _sampled(choice, expected, place, case)
            spoken = next((each for each in seen.choices if each.index == choice["index"]), None)
            if spoken is None:
                yield f"{place} is in the trace alone"
            elif trace["fidelity"] == "exact":
                yield from _text(choice, spoken, place, tokenizer, stops=case.body.get("stop", ()))
    yield from _counts(trace)


def _prompt(trace: Trace, choice: Trace, expected: Sampled, place: str, *, several: bool) -> Iterator[str]:
    prompt = choice["prompt_token_ids"] if several else trace["prompt_token_ids"]
    if prompt is None:
        if trace["fidelity"] == "exact":
            yield f"{place}: exact without prompt ids"
    elif tuple(prompt) != expected.prompt:
        yield f"{place}: prompt ids {prompt} are not the engine's {list(expected.prompt)}"


def _sampled(choice: Trace, expected: Sampled, place: str, case: Case) -> Iterator[str]:
    ids, logprobs = tuple(choice["token_ids"]), choice["logprobs"]
    if not case.sampled and ids != expected.token_ids:
        yield f"{place}: ids {list(ids)} are not the engine's {list(expected.token_ids)}"
    if logprobs is None:
        return
    if len(logprobs) != len(ids):
        yield f"{place}: {len(logprobs)} logprobs for {len(ids)} ids"
    elif not case.sampled and tuple(logprobs) != expected.logprobs:
        yield f"{place}: logprobs {logprobs} are not the engine's {list(expected.logprobs)}"
    elif case.sampled and ids == expected.token_ids[: len(ids)] and not _close(logprobs, expected.logprobs):
        yield f"{place}: logprobs {logprobs} of greedy tokens are not the engine's {list(expected.logprobs)}"
    elif any(logprob is None or logprob > 0 for logprob in logprobs):
        yield f"{place}: logprobs {logprobs} are no logarithms of probabilities"


def _close(logprobs: Sequence[float | None], expected: Sequence[float | None]) -> bool:
    """Two choices are computed in one batch, which rounds otherwise than one alone."""
    pairs = zip(logprobs, expected, strict=False)
    return all(one is not None and other is not None and abs(one - other) < 1e-3 for one, other in pairs)


def _counts(trace: Trace) -> Iterator[str]:
    if trace["fidelity"] != "exact":
        return
    usage = trace["usage"] or {}
    sampled = sum(len(choice["token_ids"] or ()) for choice in trace["choices"])
    if sampled != usage.get("completion_tokens"):
        yield f"exact with {sampled} sampled ids and {usage.get('completion_tokens')} counted"
    if trace["prompt_token_ids"] is not None and len(trace["prompt_token_ids"]) != usage.get("prompt_tokens"):
        yield f"exact with {len(trace['prompt_token_ids'])} prompt ids and {usage.get('prompt_tokens')} counted"


def _text(choice: Trace, spoken: Spoken, place: str, tokenizer: Tokenizer, *, stops: Sequence[str]) -> Iterator[str]:
    """What the agent read stands in the sampled tokens, in order; and where no parser took any, nothing else does.

    A stop string's own tokens are sampled though its text is not given; half a character is text of no server.
    """
    decoded = tokenizer.decode(choice["token_ids"], skip_special_tokens=True)
    at = 0
    for part in (spoken.reasoning, spoken.text):
        found = decoded.find(part.strip().rstrip(_HALF), at)
        if found < 0:
            yield f"{place}: the agent read {part!r}, but its ids are {decoded!r}"
            return
        at = found
    for name, arguments in spoken.tool_calls:
        if name not in decoded or not all(word in decoded for word in arguments.split('"')[1::2]):
            yield f"{place}: the agent was told to call {name}({arguments}), but its ids are {decoded!r}"
    if not spoken.tool_calls and not spoken.reasoning and "<tool_call>" not in decoded and "<think>" not in decoded:
        left = decoded.strip().rstrip(_HALF).removeprefix(spoken.text.strip().rstrip(_HALF))
        if left and not any(left.lstrip().startswith(stop) for stop in stops):
            yield f"{place}: its ids also say {left!r}, which the agent never read"
