"""Dynamo: what is sent to it, and what its refusals teach."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.schema import Capture
from adapters.server import Server
from tests.adapters.cases import changes, planned
from tests.adapters.dynamo import ALL, BOTH, DYNAMO, HELLO, ONCE, SGLANG_WORKER, TAKES_ONE, UNKNOWN_WORKER, VLLM_WORKER


def sent(body: dict[str, Any], server: Server = VLLM_WORKER, **options: Any) -> dict[str, Any]:
    """What the plan adds to or changes in the agent's body; null for what it removes."""
    _, upstream = planned(body, server, **options)
    return changes(body, upstream)


@pytest.mark.parametrize(
    ("server", "extra_fields"),
    [(VLLM_WORKER, ALL), (UNKNOWN_WORKER, ALL), (SGLANG_WORKER, BOTH), (DYNAMO.server(variant="trtllm"), BOTH)],
)
@pytest.mark.parametrize("capture", ["exact", "ids", "stream"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_is_asked_for_ids_and_sampled_logprobs(
    server: Server, extra_fields: list[str], capture: Capture, stream: bool
) -> None:
    body = {**HELLO, "stream": stream}
    plan, upstream = planned(body, server, capture=capture)
    usage = {"stream_options": {"include_usage": True}} if stream else {}
    # Without `top_logprobs: 0` the frontend asks the worker for one alternative, which an SGLang worker refuses.
    flags = {"nvext": {"extra_fields": extra_fields}, "logprobs": True, "top_logprobs": 0, **usage}
    assert upstream == {**body, **flags}
    assert (plan.mode, plan.path) == ("streamed" if stream else "whole", "/v1/chat/completions")


def test_completions_are_asked_for_logprobs_where_the_worker_takes_one() -> None:
    def added(body: dict[str, Any], server: Server = VLLM_WORKER) -> dict[str, Any]:
        return sent(body, server, endpoint="completions")

    assert added(ONCE) == {"nvext": {"extra_fields": ALL}, "logprobs": 1}
    # For 0 the frontend gives the sampled tokens' alone, which is what the agent asked for.
    assert "logprobs" not in added({**ONCE, "logprobs": 0})
    assert "logprobs" not in added({**ONCE, "logprobs": 3})
    assert added(ONCE, SGLANG_WORKER) == {"nvext": {"extra_fields": BOTH}}
    assert added(ONCE, UNKNOWN_WORKER) == {"nvext": {"extra_fields": ALL}}


def test_our_fields_stand_beside_what_the_agent_asks_for_in_nvext() -> None:
    body = {**HELLO, "nvext": {"cache_salt": "a", "extra_fields": ["worker_id", "prompt_token_ids"], "dp_rank": 1}}
    plan, upstream = planned(body, SGLANG_WORKER)
    assert upstream["nvext"] == {
        "cache_salt": "a",
        "extra_fields": ["worker_id", "prompt_token_ids", "completion_token_ids"],
        "dp_rank": 1,
    }
    assert plan.strip.nested == (("nvext", frozenset({"completion_token_ids"})),)


def test_what_dynamo_knows_goes_through_and_vllms_flag_never_does() -> None:
    body = {**HELLO, "cache_salt": "a", "stop_token_ids": [7], "return_token_ids": True, "seed": 12345678901234567890}
    plan, upstream = planned(body, VLLM_WORKER)
    assert "return_token_ids" not in upstream
    assert plan.inject_token_ids
    assert (upstream["cache_salt"], upstream["stop_token_ids"]) == ("a", [7])
    assert upstream["seed"] == 12345678901234567890


def test_several_choices_are_never_asked_for_completion_token_ids() -> None:
    assert sent({**HELLO, "n": 2})["nvext"] == {"extra_fields": ["prompt_token_ids"]}
    streamed_chat = sent({**HELLO, "n": 2, "stream": True})
    assert streamed_chat["nvext"] == {"extra_fields": ["engine_data", "prompt_token_ids"]}


@pytest.mark.parametrize("several", [{"n": 2}, {"prompt": ["Once", "Twice"]}])
def test_whole_completions_of_several_choices_are_streamed_to_us(several: dict[str, Any]) -> None:
    """In Dynamo's own whole answer the last choice's engine_data hides the others', and logprobs name no ids."""
    body = {**ONCE, **several}
    plan, upstream = planned(body, VLLM_WORKER, endpoint="completions")
    told = {"nvext": {"extra_fields": ["engine_data", "prompt_token_ids"]}, "logprobs": 1}
    assert upstream == {**body, **told, "stream": True, "stream_options": {"include_usage": True}}
    assert plan.mode == "whole"
    # Other workers give no ids there, so nothing is gained.
    plan, upstream = planned(body, SGLANG_WORKER, endpoint="completions")
    assert "stream" not in upstream
    assert "with vLLM workers alone" in (plan.without_ids or "")


@pytest.mark.parametrize("several", [{"n": 2}, {"prompt": ["Once", "Twice"]}])
def test_without_a_vllm_worker_the_logprobs_of_several_completions_name_their_tokens(several: dict[str, Any]) -> None:
    body = {**ONCE, **several}
    plan, upstream = planned(body, TAKES_ONE, endpoint="completions")
    asked = {"nvext": {"extra_fields": ["prompt_token_ids"]}, "logprobs": 1, "return_tokens_as_token_ids": True}
    assert upstream == {**body, **asked, "stream": True, "stream_options": {"include_usage": True}}
    assert (plan.mode, plan.without_ids) == ("whole", None)


def test_an_agent_that_reads_the_logprobs_of_several_completions_keeps_their_texts() -> None:
    plan, upstream = planned({**ONCE, "n": 2, "logprobs": 1}, TAKES_ONE, endpoint="completions")
    assert not {"stream", "return_tokens_as_token_ids"} & upstream.keys()
    assert "return_tokens_as_token_ids" in (plan.without_ids or "")
    named = {**ONCE, "n": 2, "logprobs": 1, "return_tokens_as_token_ids": True}
    assert planned(named, TAKES_ONE, endpoint="completions")[0].without_ids is None


def test_a_frontend_that_does_not_know_the_names_is_asked_again_without() -> None:
    plan, _ = planned({**ONCE, "n": 2}, TAKES_ONE, endpoint="completions")
    refusal = b'{"message":"Validation: Unsupported parameter(s): `return_tokens_as_token_ids`","code":400}'
    corrected_server = DYNAMO.refused(plan, 400, refusal)
    assert corrected_server is not None
    assert TAKES_ONE.features - corrected_server.features == {"tokens_as_token_ids"}


def refused(body: dict[str, Any], message: str, status: int = 400, **options: Any) -> frozenset[str] | None:
    """The features that the server is found to lack."""
    plan, _ = planned(body, VLLM_WORKER, **options)
    answer = json.dumps({"message": message, "type": "Bad Request", "code": status}).encode()
    corrected = DYNAMO.refused(plan, status, answer)
    return None if corrected is None else VLLM_WORKER.features - corrected.features


def test_a_refusal_of_what_we_added_is_learnt_from() -> None:
    assert refused(HELLO, "Validation: Unsupported parameter(s): `nvext`") == {*ALL}
    assert refused(HELLO, "invalid extra_fields `engine_data`: not allowed") == {"engine_data"}
    too_many = "Dynamo's SGLang backend does not currently support logprobs >= 1. Use logprobs=0"
    assert refused(ONCE, too_many, endpoint="completions") == {"completion_logprobs"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({**HELLO, "x": 1}, "Validation: Unsupported parameter(s): `x`"),
        (
            {**HELLO, "nvext": {"no_such": 1}},
            "Failed to deserialize the JSON body: unknown field `no_such`, expected one of `extra_fields`",
        ),
        (
            {**HELLO, "n": 2, "nvext": {"extra_fields": ["completion_token_ids"]}},
            '`nvext.extra_fields=["completion_token_ids"]` requires exactly one generated choice',
        ),
        ({**HELLO, "temperature": 99}, "temperature must be between 0 and 2"),
        ({**HELLO, "logprobs": True, "top_logprobs": 200}, "top_logprobs must be between 0 and 20"),
    ],
)
def test_a_refusal_of_what_the_agent_sent_is_the_agents(body: dict[str, Any], message: str) -> None:
    assert refused(body, message) is None


def test_only_a_refusal_teaches() -> None:
    assert refused(HELLO, "nvext went wrong", 500) is None
    assert DYNAMO.refused(planned(HELLO, VLLM_WORKER)[0], 400, b"\xff<html>") is None
