"""Fidelity is earned: each way to fall short of `exact` has its reason, with its numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.engines import adapter_for
from adapters.plan import Plan
from adapters.schema import Choice, Completion, Error, Usage, Verdict
from adapters.token_ids import TokenIds
from adapters.verdict import RETOKENIZED, verdict
from tests.adapters.cases import canonical


def judged(completion: Completion, *, endpoint: str = "chat", asked: bool = True, **body: Any) -> Verdict:
    plan = Plan("whole", "", b"{}", adapter_for("vllm").server(), canonical(body, endpoint), logprobs_asked=asked)
    return verdict(completion, plan)


def choice(*ids: int, index: int = 0, **fields: Any) -> Choice:
    return Choice(index, token_ids=TokenIds(ids), **fields)


GOOD = Completion(
    choices=(choice(7, 8, logprobs=(-0.5, -1.0)),),
    prompt_token_ids=TokenIds([1, 2, 3]),
    usage=Usage(3, 2, 5),
    source="choices[].token_ids",
)


def test_ids_as_many_as_the_engine_counted_are_exact() -> None:
    assert judged(GOOD) == Verdict("exact", None, "exact", None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"usage": None}, "the engine gave no count to hold the 2 completion ids against"),
        ({"usage": Usage(3, None)}, "the engine gave no count to hold the 2 completion ids against"),
        ({"usage_estimated": True}, "the engine gave no count to hold the 2 completion ids against"),
        ({"usage": Usage(3, 3)}, "2 completion ids where the engine counted 3 tokens"),
        ({"usage": Usage(3, 1)}, "2 completion ids where the engine counted 1 tokens"),
        ({"usage": Usage(None, 2)}, "the engine gave no count to hold the 3 prompt ids against"),
        ({"usage": Usage(4, 2)}, "3 prompt ids where the engine counted 4 tokens"),
        ({"prompt_token_ids": None}, "the engine gave no prompt ids"),
        ({"anomalies": ("a chunk did not parse",)}, "a chunk did not parse"),
        ({"anomalies": ("one", "two", "three")}, "one (and 2 more oddities)"),
        ({"error": Error("boom")}, "the engine broke off: boom"),
        ({"choices": (*GOOD.choices, Choice(1, text="x"))}, "1 of 2 choices have token ids"),
    ],
)
def test_each_way_to_fall_short_is_partial_and_says_so(changes: dict[str, Any], reason: str) -> None:
    told = judged(replace(GOOD, **changes))
    assert (told.fidelity, told.fidelity_reason) == ("partial", reason)


@pytest.mark.parametrize(
    ("asked", "told", "served", "reason"),
    [
        ("a", "a", (), None),
        # A server answers by the first of its names, whichever it was called by.
        ("b", "a", ("a", "b"), None),
        ("b", "a-2", ("a-*", "b"), None),
        (None, "a", (), None),
        ("a", None, (), None),
        ("a", "c", ("a", "b"), "the answer is of the model 'c', and 'a' was asked for"),
        ("a", "c", (), "the answer is of the model 'c', and 'a' was asked for"),
    ],
)
def test_ids_of_another_model_than_asked_for_are_not_exact(
    asked: str | None, told: str | None, served: tuple[str, ...], reason: str | None
) -> None:
    server = adapter_for("vllm").server(models=served)
    plan = Plan("whole", "", b"{}", server, canonical({"model": asked}, "chat"), logprobs_asked=True)
    judged = verdict(replace(GOOD, served_model=told), plan)
    assert (judged.fidelity, judged.fidelity_reason) == ("partial" if reason else "exact", reason)


def test_no_ids_are_none_whatever_else_is_told() -> None:
    told = judged(replace(GOOD, choices=(Choice(0, text="Hello"),)))
    assert (told.fidelity, told.fidelity_reason) == ("none", "the engine gave no token ids")
    told = judged(Completion(error=Error("boom")))
    assert (told.fidelity, told.fidelity_reason) == ("none", "the engine gave no choice (the engine broke off: boom)")


def test_an_empty_list_of_ids_is_a_list_of_ids() -> None:
    assert judged(replace(GOOD, choices=(choice(logprobs=()),), usage=Usage(3, 0))).fidelity == "exact"


def test_ids_made_from_text_are_never_more_than_that() -> None:
    assert judged(replace(GOOD, source=RETOKENIZED)).fidelity == "retokenized"


def test_counts_are_summed_over_the_choices() -> None:
    two = replace(GOOD, choices=(choice(7, 8), choice(9, index=1)), usage=Usage(3, 3))
    assert judged(two, n=2).fidelity == "exact"
    assert judged(two, n=3).fidelity_reason == "2 of 3 choices came"


def test_several_prompts_are_counted_once_each_however_many_choices_they_have() -> None:
    first, second = TokenIds([1, 2]), TokenIds([3, 4, 5])
    completion = Completion(
        choices=tuple(choice(7, index=index, prompt_token_ids=first if index < 2 else second) for index in range(4)),
        usage=Usage(5, 4),
    )
    body = {"prompt": [[1, 2], [3, 4, 5]], "n": 2}
    assert judged(completion, endpoint="completions", **body).fidelity == "exact"
    lacking = replace(completion, choices=tuple(replace(one, prompt_token_ids=None) for one in completion.choices))
    assert judged(lacking, endpoint="completions", **body).fidelity_reason == "the ids of 2 of 2 prompts are missing"


@pytest.mark.parametrize(
    ("logprobs", "reason"),
    [
        ((-0.5, None), "1 of 2 logprobs are null"),
        ((-0.5, 0.2), "1 of 2 logprobs are above 0"),
        (None, "the engine gave none"),
    ],
)
def test_logprobs_that_cannot_be_relied_on_are_not_exact(logprobs: Any, reason: str) -> None:
    told = judged(replace(GOOD, choices=(choice(7, 8, logprobs=logprobs),)))
    assert (told.logprobs_fidelity, told.logprobs_reason) == ("none", reason)
    assert told.fidelity == "exact"


@pytest.mark.parametrize("logprobs", [(0.0, -1e-9), (1e-7, -3.0)])
def test_a_sure_token_may_be_a_rounding_error_above_0(logprobs: Any) -> None:
    assert judged(replace(GOOD, choices=(choice(7, 8, logprobs=logprobs),))).logprobs_fidelity == "exact"


def test_the_reader_s_reason_for_missing_logprobs_is_kept() -> None:
    bare = replace(GOOD, choices=(choice(7, 8),))
    assert judged(replace(bare, logprobs_reason="choice 0 has 3 logprobs for 2 token ids")).logprobs_reason == (
        "choice 0 has 3 logprobs for 2 token ids"
    )
    assert judged(bare, asked=False).logprobs_reason == "none were asked for"
