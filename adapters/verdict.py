"""How sure the ids and logprobs of a call are: earned by agreeing with the engine's own count, never assumed."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

from adapters.plan import Plan
from adapters.request import CanonicalRequest
from adapters.schema import Choice, Completion, Fidelity, LogprobsFidelity, Verdict

RETOKENIZED: Final = "tokenizer"
"""The `source` of ids that were made from text."""
_ROUNDING: Final = 1e-3
"""A log-softmax in half precision may print a sure token as slightly above 0."""


def verdict(completion: Completion, plan: Plan) -> Verdict:
    fidelity, reason = _fidelity(completion, plan)
    logprobs, logprobs_reason = _logprobs(completion, plan.logprobs_asked)
    return Verdict(fidelity, reason, logprobs, logprobs_reason)


def _fidelity(completion: Completion, plan: Plan) -> tuple[Fidelity, str | None]:
    choices, request = completion.choices, plan.request
    if not choices:
        return "none", _with(completion, "the engine gave no choice")
    if not any(choice.token_ids is not None for choice in choices):
        return "none", _with(completion, plan.without_ids or "the engine gave no token ids")
    if completion.source == RETOKENIZED:
        return "retokenized", "the ids were made from text by a tokenizer; others may have been sampled"
    reason = (
        _unread(completion)
        or _another_model(completion, plan)
        or _missing(choices, request)
        or _miscounted(completion)
        or _prompt_missing(completion, request)
        or _prompt_miscounted(completion, request)
    )
    return ("partial", reason) if reason else ("exact", None)


def _with(completion: Completion, reason: str) -> str:
    told = _unread(completion)
    return f"{reason} ({told})" if told else reason


def _unread(completion: Completion) -> str | None:
    if completion.anomalies:
        first, *others = completion.anomalies
        return first if not others else f"{first} (and {len(others)} more oddities)"
    if completion.error is not None:
        return f"the engine broke off: {completion.error.message[:200]}"
    return None


def _another_model(completion: Completion, plan: Plan) -> str | None:
    """Ids mean nothing without the model that they are of. A server may have several names for the one it serves."""
    asked, told = plan.request.model, completion.served_model
    if asked is None or told is None or told == asked:
        return None
    if any(fnmatchcase(told, name) for name in plan.server.models):
        return None
    return f"the answer is of the model {told[:100]!r}, and {asked[:100]!r} was asked for"


def _missing(choices: tuple[Choice, ...], request: CanonicalRequest) -> str | None:
    given = sum(choice.token_ids is not None for choice in choices)
    if given < len(choices):
        return f"{given} of {len(choices)} choices have token ids"
    if len(choices) < request.expected_choices:
        return f"{len(choices)} of {request.expected_choices} choices came"
    return None


def _miscounted(completion: Completion) -> str | None:
    usage = completion.usage
    ids = sum(len(choice.token_ids or ()) for choice in completion.choices)
    if usage is None or usage.completion_tokens is None or completion.usage_estimated:
        return f"the engine gave no count to hold the {ids} completion ids against"
    if usage.completion_tokens != ids:
        return f"{ids} completion ids where the engine counted {usage.completion_tokens} tokens"
    return None


def _prompt_missing(completion: Completion, request: CanonicalRequest) -> str | None:
    given = _prompt_lengths(completion, request)
    missing = sum(length is None for length in given)
    if not missing:
        return None
    if len(given) == 1:
        return "the engine gave no prompt ids"
    return f"the ids of {missing} of {len(given)} prompts are missing"


def _prompt_miscounted(completion: Completion, request: CanonicalRequest) -> str | None:
    usage = completion.usage
    ids = sum(length or 0 for length in _prompt_lengths(completion, request))
    if usage is None or usage.prompt_tokens is None:
        return f"the engine gave no count to hold the {ids} prompt ids against"
    if usage.prompt_tokens != ids:
        return f"{ids} prompt ids where the engine counted {usage.prompt_tokens} tokens"
    return None


def _prompt_lengths(completion: Completion, request: CanonicalRequest) -> list[int | None]:
    """One per prompt, however many choices it has; null where its ids are not known."""
    if request.prompts == 1:
        ids = completion.prompt_token_ids
        return [None if ids is None else len(ids)]
    lengths: list[int | None] = [None] * request.prompts
    for choice in completion.choices:
        prompt = choice.index // request.n
        if prompt < request.prompts and choice.prompt_token_ids is not None:
            lengths[prompt] = len(choice.prompt_token_ids)
    return lengths


def _logprobs(completion: Completion, asked: bool) -> tuple[LogprobsFidelity, str | None]:
    choices = completion.choices
    given = [choice.logprobs for choice in choices if choice.logprobs is not None]
    if not given:
        return "none", completion.logprobs_reason or ("the engine gave none" if asked else "none were asked for")
    if len(given) < len(choices):
        return "none", completion.logprobs_reason or f"{len(given)} of {len(choices)} choices have logprobs"
    values = [value for logprobs in given for value in logprobs if value is not None]
    if missing := sum(map(len, given)) - len(values):
        return "none", f"{missing} of {missing + len(values)} logprobs are null"
    if max(values, default=0.0) > _ROUNDING:
        positive = sum(value > _ROUNDING for value in values)
        return "none", f"{positive} of {len(values)} logprobs are above 0"
    return "exact", None
