"""Answers of Dynamo that no recording has: several choices and prompts, and fields that disagree."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.answer import AnswerReader
from adapters.token_ids import TokenIds
from tests.adapters.cases import chunks_of, client_bytes, planned, streamed
from tests.adapters.dynamo import (
    HELLO,
    ONCE,
    SGLANG_WORKER,
    TAKES_ONE,
    UNKNOWN_WORKER,
    VLLM_WORKER,
    counted,
    entry,
    part,
    stream,
    whole,
)


def test_two_completions_that_their_logprobs_name_are_exact_and_the_agent_sees_none_of_it() -> None:
    def chunk(index: int, text: str, token_id: int, finish: str | None = None) -> dict[str, Any]:
        logprobs = {"tokens": [f"token_id:{token_id}"], "token_logprobs": [-0.5], "top_logprobs": [], "text_offset": []}
        nvext = {"nvext": {"prompt_token_ids": [12522, 5193]}} if finish else {}
        choice = {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}
        return {"id": "c", "object": "text_completion", "choices": [choice], **nvext}

    plan, _ = planned({**ONCE, "n": 2}, TAKES_ONE, endpoint="completions")
    _, outcome = streamed(
        plan,
        stream(
            chunk(0, " a", 264),
            chunk(1, " the", 279, "length"),
            chunk(0, " time", 882, "length"),
            counted(2, 3),
        ),
    )
    assert (outcome.verdict.fidelity, outcome.verdict.logprobs_fidelity) == ("exact", "exact"), outcome.verdict
    assert outcome.completion.source == "choices[].logprobs.tokens"
    assert [choice.token_ids for choice in outcome.completion.choices] == [TokenIds([264, 882]), TokenIds([279])]
    assert [choice.logprobs for choice in outcome.completion.choices] == [(-0.5, -0.5), (-0.5,)]
    assert b"logprobs" not in outcome.client
    assert b"nvext" not in outcome.client


def test_one_accumulated_list_on_the_finish_chunk_reads_as_deltas_do() -> None:
    """Pull request 9509 of ai-dynamo/dynamo, whose branch some run."""
    plan, _ = planned({**HELLO, "stream": True}, UNKNOWN_WORKER)
    late = stream(
        part(0, "a"),
        part(0, "b"),
        part(0, "", "stop", completion_token_ids=[5, 6, 7], prompt_token_ids=[1]),
        counted(1, 3),
    )
    _, outcome = streamed(plan, late)
    assert outcome.completion.choices[0].token_ids == TokenIds([5, 6, 7])
    assert outcome.verdict.fidelity == "exact"


def test_two_streamed_choices_have_each_its_own_engine_data() -> None:
    plan, _ = planned({**HELLO, "stream": True, "n": 2}, VLLM_WORKER)
    first = {"completion_token_ids": [5, 6], "completion_logprobs": [-0.5, -0.6], "prompt_token_ids": [1, 2]}
    second = {"completion_token_ids": [7], "completion_logprobs": [-0.7], "prompt_token_ids": [1, 2]}
    _, outcome = streamed(
        plan,
        stream(
            part(0, "a"),
            part(1, "c"),
            part(0, "b", "stop", engine_data=first),
            part(1, "", "stop", engine_data=second),
            counted(2, 3),
        ),
    )
    assert [choice.token_ids for choice in outcome.completion.choices] == [TokenIds([5, 6]), TokenIds([7])]
    assert [choice.logprobs for choice in outcome.completion.choices] == [(-0.5, -0.6), (-0.7,)]
    assert outcome.completion.prompt_token_ids == TokenIds([1, 2])
    assert (outcome.verdict.fidelity, outcome.verdict.logprobs_fidelity) == ("exact", "exact")


def test_two_streamed_prompts_have_each_its_own_ids() -> None:
    def chunk(index: int, text: str, token_id: int, prompt: list[int]) -> dict[str, Any]:
        logprobs = {"tokens": [text], "token_logprobs": [-0.5], "top_logprobs": None, "text_offset": []}
        data = {"completion_token_ids": [token_id], "prompt_token_ids": prompt}
        return {
            "choices": [{"index": index, "text": text, "finish_reason": "length", "logprobs": logprobs}],
            "nvext": {"engine_data": data, "prompt_token_ids": prompt},
        }

    body = {"model": "m", "prompt": ["Once upon", "The quick"], "max_tokens": 1, "stream": True}
    plan, _ = planned(body, VLLM_WORKER, endpoint="completions")
    usage = {"choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}}
    told = [chunk(0, " a", 264, [12522, 5193]), chunk(1, " brown", 13876, [785, 3974]), usage]
    _, outcome = streamed(plan, b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in told))
    assert outcome.verdict.fidelity == "exact", outcome.verdict
    assert outcome.verdict.logprobs_fidelity == "exact"
    first, second = outcome.completion.choices
    assert (first.prompt_token_ids, first.token_ids) == (TokenIds([12522, 5193]), TokenIds([264]))
    assert (second.prompt_token_ids, second.token_ids) == (TokenIds([785, 3974]), TokenIds([13876]))


@pytest.mark.parametrize("asked", [{}, {"nvext": {"extra_fields": ["prompt_token_ids"]}}])
def test_an_agent_with_two_streamed_prompts_sees_their_ids_if_it_asked_for_them(asked: dict[str, Any]) -> None:
    body = {"model": "m", "prompt": ["Once upon", "The quick"], "max_tokens": 1, "stream": True, **asked}
    plan, _ = planned(body, SGLANG_WORKER, endpoint="completions")
    prompts = [[12522, 5193], [785, 3974]]
    told = [
        {"choices": [{"index": index, "text": "x", "finish_reason": "length"}], "nvext": {"prompt_token_ids": ids}}
        for index, ids in enumerate(prompts)
    ]
    answered = streamed(plan, b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in told))
    seen = [chunk.get("nvext") for chunk in chunks_of(client_bytes(*answered)) if chunk != "[DONE]"]
    assert seen == ([{"prompt_token_ids": ids} for ids in prompts] if asked else [None, None])


def test_two_whole_prompts_are_one_body_to_the_agent() -> None:
    def chunk(index: int, text: str, finish: str | None, **nvext: Any) -> dict[str, Any]:
        logprobs = {"tokens": [text], "token_logprobs": [-0.5], "top_logprobs": [{text: -0.5}], "text_offset": []}
        choice = {"index": index, "text": text, "finish_reason": finish, "logprobs": logprobs}
        root = {"id": f"cmpl-{index}", "object": "text_completion", "created": 1, "model": "m", "usage": None}
        return {**root, "choices": [choice], **({"nvext": nvext} if nvext else {})}

    def ending(ids: list[int], prompt: list[int]) -> dict[str, Any]:
        data = {"completion_token_ids": ids, "prompt_token_ids": prompt}
        return {"engine_data": data, "prompt_token_ids": prompt}

    counts = {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}
    told = [
        chunk(0, " a", None),
        chunk(1, " brown", "length", **ending([13876], [785, 3974])),
        chunk(0, " time", "length", **ending([264, 882], [12522, 5193])),
        {**chunk(0, "", None), "choices": [], "usage": counts},
    ]
    body = {"model": "m", "prompt": ["Once upon", "The quick"], "max_tokens": 2}
    plan, _ = planned(body, VLLM_WORKER, endpoint="completions")
    _, outcome = streamed(plan, b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in told))
    assert (outcome.verdict.fidelity, outcome.verdict.logprobs_fidelity) == ("exact", "exact"), outcome.verdict
    assert [choice.token_ids for choice in outcome.completion.choices] == [TokenIds([264, 882]), TokenIds([13876])]
    assert json.loads(outcome.client) == {
        "id": "cmpl-0",
        "object": "text_completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "text": " a time", "finish_reason": "length"},
            {"index": 1, "text": " brown", "finish_reason": "length"},
        ],
        "usage": counts,
    }


def test_two_whole_choices_have_the_ids_of_their_logprobs_and_not_the_last_ones_engine_data() -> None:
    plan, _ = planned({**HELLO, "n": 2}, VLLM_WORKER)
    body = whole(
        [entry(5, -0.5), entry(6, -0.6)],
        [entry(7, -0.7)],
        nvext={"prompt_token_ids": [1, 2], "engine_data": {"completion_token_ids": [7]}},
        completion_tokens=3,
    )
    outcome = AnswerReader(plan).whole(body)
    assert [choice.token_ids for choice in outcome.completion.choices] == [TokenIds([5, 6]), TokenIds([7])]
    assert outcome.completion.source == "choices[].logprobs.content[].token_id"
    assert outcome.verdict.fidelity == "exact"


def test_two_whole_choices_with_fewer_logprobs_than_counted_are_partial() -> None:
    plan, _ = planned({**HELLO, "n": 2}, VLLM_WORKER)
    body = whole([entry(5, -0.5)], [entry(7, -0.7)], nvext={"prompt_token_ids": [1, 2]}, completion_tokens=3)
    assert AnswerReader(plan).whole(body).verdict.fidelity == "partial"


def test_logprobs_of_other_tokens_are_not_zipped_to_the_ids() -> None:
    """566 against 565, NeMo Gym issue 1963: the ids count, the logprobs are null with the reason."""
    plan, _ = planned(HELLO, UNKNOWN_WORKER)
    ids = [5, 6, 7]
    extra = whole(
        [entry(5, -0.5), entry(6, -0.6), entry(6, -0.1), entry(7, -0.7)],
        nvext={"prompt_token_ids": [1, 2], "completion_token_ids": ids},
        completion_tokens=3,
    )
    shifted = whole(
        [entry(5, -0.5), entry(6, -0.6), entry(8, -0.7)],
        nvext={"prompt_token_ids": [1, 2], "completion_token_ids": ids},
        completion_tokens=3,
    )
    for body in (extra, shifted):
        outcome = AnswerReader(plan).whole(body)
        assert outcome.completion.choices[0].token_ids == TokenIds(ids)
        assert outcome.completion.choices[0].logprobs is None
        assert outcome.verdict.fidelity == "exact"
        assert "differ" in (outcome.verdict.logprobs_reason or "")


def test_logprobs_come_from_the_engine_where_the_frontends_own_do_not_fit() -> None:
    plan, _ = planned(HELLO, VLLM_WORKER)
    data = {"completion_token_ids": [5, 6], "completion_logprobs": [-0.5, -9999.0], "prompt_token_ids": [1, 2]}
    body = whole([entry(5, -0.5)], nvext={"completion_token_ids": [5, 6], "engine_data": data}, completion_tokens=2)
    outcome = AnswerReader(plan).whole(body)
    assert outcome.completion.choices[0].logprobs == (-0.5, None)
    # An older frontend knows no `prompt_token_ids`; its vLLM worker does.
    assert outcome.completion.prompt_token_ids == TokenIds([1, 2])


def test_engine_data_that_contradicts_the_ids_is_never_exact() -> None:
    plan, _ = planned(HELLO, VLLM_WORKER)
    nvext = {
        "completion_token_ids": [5, 6],
        "engine_data": {"completion_token_ids": [5, 9]},
        "prompt_token_ids": [1, 2],
    }
    body = whole([entry(5, -0.5), entry(6, -0.6)], nvext=nvext, completion_tokens=2)
    assert AnswerReader(plan).whole(body).verdict.fidelity == "partial"


@pytest.mark.parametrize("nvext", [[], "x", 7, {"completion_token_ids": {}}, {"completion_token_ids": [None]}])
def test_an_nvext_that_is_no_nvext_breaks_nothing(nvext: Any) -> None:
    plan, _ = planned({**HELLO, "stream": True}, VLLM_WORKER)
    _, outcome = streamed(plan, stream({**part(0, "a", "stop"), "nvext": nvext}, counted(1, 1)))
    assert outcome.completion.choices[0].text == "a"
    assert outcome.completion.choices[0].token_ids in (None, TokenIds())
    assert outcome.verdict.fidelity in ("none", "partial")


def test_an_error_event_says_its_words_in_a_comment() -> None:
    plan, _ = planned({**HELLO, "stream": True}, VLLM_WORKER)
    begun = b"data: " + json.dumps(part(0, "a", completion_token_ids=[5])).encode() + b"\n\n"
    pieces, outcome = streamed(plan, begun + b"event: error\n: worker went away\n\n")
    assert pieces[-1].error is not None
    assert pieces[-1].error.message == "worker went away"
    assert outcome.completion.choices[0].token_ids == TokenIds([5])
    assert not outcome.finished


def test_logprobs_are_of_the_kind_that_the_worker_gives() -> None:
    body = whole([entry(5, -0.5)], nvext={"completion_token_ids": [5], "prompt_token_ids": [1, 2]}, completion_tokens=1)
    modes = {
        server.variant: AnswerReader(planned(HELLO, server)[0]).whole(body).completion.logprobs_mode
        for server in (VLLM_WORKER, SGLANG_WORKER, UNKNOWN_WORKER)
    }
    assert modes == {"vllm": "raw", "sglang": "processed", None: None}
