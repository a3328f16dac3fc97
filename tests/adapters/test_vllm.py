"""What is sent to vLLM, by version, capture and what the agent asked; and what a refusal teaches."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import Raw

from adapters.engines import adapter_for
from adapters.plan import Strip
from adapters.request import CanonicalRequest
from adapters.schema import Capture
from adapters.vllm import NO_PARSERS
from tests.adapters.cases import changes, planned

VLLM = adapter_for("vllm")
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
WEATHER = [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}]
IDS_ON_CHAT = Strip(root=frozenset({"prompt_token_ids"}), choice=frozenset({"token_ids", "prompt_token_ids"}))
STREAM = {**HELLO, "stream": True}


def sent(body: dict[str, Any], version: str | None = "0.33.0", **options: Any) -> dict[str, Any]:
    """What the plan adds to or changes in the agent's body; null for what it removes."""
    _, upstream = planned(body, VLLM.server(version), **options)
    return changes(body, upstream)


@pytest.mark.parametrize(
    ("version", "flags"),
    [
        ("0.10.1.1", {"logprobs": True, "top_logprobs": 1}),
        ("0.10.2", {"logprobs": True, "top_logprobs": 1, "return_token_ids": True}),
        ("0.10.2rc3", {"logprobs": True, "top_logprobs": 1, "return_token_ids": True}),
        ("0.13.0", {"logprobs": True, "top_logprobs": 1, "return_token_ids": True}),
        ("0.28.0", {"logprobs": True, "top_logprobs": 1, "return_token_ids": True}),
        ("0.29.0+cu129", {"logprobs": True, "top_logprobs": 0, "return_token_ids": True}),
        ("0.32.0", {"logprobs": True, "top_logprobs": 0, "return_token_ids": True}),
        ("0.33.0", {"logprobs": True, "top_logprobs": 0, "return_token_ids": True, "return_weight_versions": True}),
        ("v1.2.0", {"logprobs": True, "top_logprobs": 0, "return_token_ids": True, "return_weight_versions": True}),
        (None, {"logprobs": True, "top_logprobs": 1, "return_token_ids": True}),
        ("0.1.dev12+g3f2c9d", {"logprobs": True, "top_logprobs": 1, "return_token_ids": True}),
        ("nightly", {"logprobs": True, "top_logprobs": 1, "return_token_ids": True}),
    ],
)
def test_a_version_gets_the_flags_that_it_knows(version: str | None, flags: dict[str, Any]) -> None:
    assert sent(HELLO, version) == flags


def test_thoughts_of_a_translated_history_are_told_under_both_names_that_versions_read() -> None:
    asked, said = b'{"role":"user","content":"1.0"}', b'{"role":"assistant","content":null,"reasoning_content":"Hm."'
    messages = Raw(b"[" + asked + b"," + said + b"}]")
    request = CanonicalRequest("chat", {"model": Raw(b'"m"'), "messages": messages}, "m", translated=True)
    told = b'"messages":[' + asked + b"," + said + b',"reasoning":"Hm."}]'
    assert told in VLLM.plan(request, VLLM.server("0.33.0"), "exact").body
    counting = VLLM.counting(request)
    assert counting is not None
    assert told in (counting.body or b"")
    own = replace(request, translated=False)
    assert b'"messages":' + bytes(messages) in VLLM.plan(own, VLLM.server("0.33.0"), "exact").body


def test_a_stream_is_asked_for_its_usage_and_a_whole_answer_is_not() -> None:
    assert sent(STREAM)["stream_options"] == {"include_usage": True}
    assert "stream_options" not in sent(HELLO)
    assert sent({**HELLO, "stream_options": {"include_usage": True}})["stream_options"] is None


def test_the_agents_own_stream_options_stay_beside_ours() -> None:
    asked = {**STREAM, "stream_options": {"include_usage": False, "continuous_usage_stats": True}}
    assert sent(asked)["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    plan, _ = planned(asked, VLLM.server("0.33.0"))
    assert plan.strip.usage
    plan, _ = planned({**STREAM, "stream_options": {"include_usage": True}}, VLLM.server("0.33.0"))
    assert not plan.strip.usage


def test_what_an_agent_asks_for_by_the_engines_own_flag_is_left_to_it() -> None:
    plan, upstream = planned({**HELLO, "return_token_ids": True}, VLLM.server("0.32.0"))
    assert upstream["return_token_ids"] is True
    assert plan.strip == Strip(nulled=frozenset({"logprobs"}))
    assert not plan.inject_token_ids


@pytest.mark.parametrize("given", [False, None])
def test_a_flag_that_the_agent_turned_off_is_turned_on_and_what_it_brings_taken_out(given: bool | None) -> None:
    plan, upstream = planned({**HELLO, "return_token_ids": given, "logprobs": given}, VLLM.server("0.32.0"))
    assert upstream["return_token_ids"] is True
    assert upstream["logprobs"] is True
    assert plan.strip == IDS_ON_CHAT | Strip(nulled=frozenset({"logprobs"}))
    assert plan.logprobs_asked


def test_logprobs_that_the_agent_asked_for_stay_as_asked() -> None:
    plan, upstream = planned({**HELLO, "logprobs": True, "top_logprobs": 5}, VLLM.server("0.32.0"))
    assert (upstream["logprobs"], upstream["top_logprobs"]) == (True, 5)
    assert plan.strip == IDS_ON_CHAT


@pytest.mark.parametrize(
    "body", [{"logprobs": True}, {"logprobs": True, "top_logprobs": None}, {"logprobs": True, "top_logprobs": 0}]
)
def test_logprobs_without_top_logprobs_are_asked_for_in_the_way_that_the_version_heeds(body: dict[str, Any]) -> None:
    plan, upstream = planned({**HELLO, **body}, VLLM.server("0.25.0"))
    assert (upstream["logprobs"], upstream["top_logprobs"]) == (True, 1)
    assert plan.strip == IDS_ON_CHAT | Strip(top_logprobs=True)
    plan, upstream = planned({**HELLO, **body}, VLLM.server("0.32.0"))
    assert (upstream["logprobs"], upstream["top_logprobs"]) == (True, 0)
    assert plan.strip == IDS_ON_CHAT


def test_completions_ask_for_the_logprobs_of_the_sampled_tokens_alone() -> None:
    body = {"model": "m", "prompt": "Once"}
    plan, upstream = planned(body, VLLM.server("0.32.0"), endpoint="completions")
    assert plan.path == "/v1/completions"
    assert upstream == {**body, "return_token_ids": True, "logprobs": 0}
    plan, upstream = planned({**body, "logprobs": 3}, VLLM.server("0.32.0"), endpoint="completions")
    assert upstream["logprobs"] == 3
    assert plan.strip == IDS_ON_CHAT
    _, upstream = planned({**body, "logprobs": None}, VLLM.server("0.32.0"), endpoint="completions")
    assert upstream["logprobs"] == 0


def test_an_echoed_prompt_is_worth_more_to_its_agent_than_ids_to_us() -> None:
    body = {"model": "m", "prompt": "Once", "echo": True}
    _, upstream = planned(body, VLLM.server("0.32.0"), endpoint="completions")
    assert upstream == body


@pytest.mark.parametrize(
    ("version", "features", "capture", "mode"),
    [
        ("0.10.2", [], "exact", "buffered"),
        ("0.12.0", [], "exact", "buffered"),
        ("0.12.0", [], "ids", "buffered"),
        ("0.12.0", [], "stream", "streamed"),
        ("0.12.0", [NO_PARSERS], "exact", "streamed"),
        ("0.10.1", [], "exact", "streamed"),
        ("0.13.0", [], "exact", "streamed"),
        (None, [], "exact", "streamed"),
    ],
)
def test_a_stream_that_would_lose_ids_is_buffered(
    version: str | None, features: list[str], capture: Capture, mode: str
) -> None:
    server = VLLM.server(version, features=features)
    plan, upstream = planned({**STREAM, "tools": WEATHER}, server, capture=capture)
    assert plan.mode == mode
    if mode == "buffered":
        assert "stream" not in upstream
        assert "stream_options" not in upstream
        assert "parser" in (plan.reason or "")
    else:
        assert upstream["stream"] is True


def test_legacy_completions_have_no_parsers_to_lose_ids_in() -> None:
    plan, _ = planned({"model": "m", "prompt": "a", "stream": True}, VLLM.server("0.12.0"), endpoint="completions")
    assert plan.mode == "streamed"


def test_reasoning_is_hidden_here_for_the_engine_would_blank_the_ids() -> None:
    plan, upstream = planned({**HELLO, "include_reasoning": False}, VLLM.server("0.32.0"))
    assert "include_reasoning" not in upstream
    assert plan.strip.delta == {"reasoning", "reasoning_content"}
    plan, upstream = planned({**HELLO, "include_reasoning": True}, VLLM.server("0.32.0"))
    assert upstream["include_reasoning"] is True
    assert plan.strip.delta == frozenset()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"tools": []}, {}),
        ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}, {}),
        ({"tools": None, "tool_choice": "none"}, {}),
        ({"tool_choice": "auto"}, {}),
        ({"tools": WEATHER, "tool_choice": "auto"}, {"tools": WEATHER, "tool_choice": "auto"}),
    ],
)
def test_tools_that_are_none_are_not_sent(given: dict[str, Any], kept: dict[str, Any]) -> None:
    _, upstream = planned({**HELLO, **given}, VLLM.server("0.33.0"))
    assert {key: upstream[key] for key in ("tools", "tool_choice", "parallel_tool_calls") if key in upstream} == kept


def test_everything_else_goes_upstream_as_it_came() -> None:
    odd = {
        "temperature": 1e-05,
        "seed": 12345678901234567890,
        "guided_json": {"a": [1.0]},
        "vllm_xargs": {"é": "\u2028"},
    }
    plan, upstream = planned({**HELLO, **odd}, VLLM.server("0.33.0"))
    assert {key: upstream[key] for key in odd} == odd
    assert b"12345678901234567890" in plan.body


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ({"error": {"message": "Unrecognized request argument supplied: return_token_ids"}}, {"token_ids"}),
        ({"detail": [{"loc": ["body", "return_token_ids"], "msg": "Extra inputs are not permitted"}]}, {"token_ids"}),
        ({"error": {"message": "logprobs are not supported", "param": "logprobs"}}, {"logprobs"}),
        ({"object": "error", "message": "Unknown parameter: 'stream_options'"}, {"usage"}),
        (
            {"error": {"message": "return_token_ids, return_weight_versions: Extra inputs are not permitted"}},
            {"token_ids", "weight_versions"},
        ),
        (
            {"error": {"message": "Extra inputs are not permitted"}},
            {"token_ids", "weight_versions", "logprobs", "usage"},
        ),
    ],
)
def test_a_refusal_of_a_flag_that_we_added_teaches_us_to_do_without(body: dict[str, Any], lost: set[str]) -> None:
    server = VLLM.server("0.33.0")
    plan, _ = planned(STREAM, server)
    taught = VLLM.refused(plan, 400, json.dumps(body).encode())
    assert taught is not None
    assert server.features - taught.features == lost
    assert taught.known == "probed"
    _, upstream = planned(STREAM, taught)
    assert "token_ids" not in lost or "return_token_ids" not in upstream


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "max_tokens must be at least 1, got 0."),
        (400, "This model's maximum context length is 2048 tokens."),
        (404, "return_token_ids"),
        (500, "return_token_ids"),
        (400, "messages: extra inputs are not permitted"),
    ],
)
def test_a_refusal_of_what_the_agent_sent_is_the_agents(status: int, message: str) -> None:
    plan, _ = planned(STREAM, VLLM.server("0.33.0"))
    assert VLLM.refused(plan, status, json.dumps({"error": {"message": message}}).encode()) is None


def test_a_refusal_of_a_flag_that_the_agent_set_itself_is_the_agents() -> None:
    plan, _ = planned({**HELLO, "return_token_ids": True, "logprobs": True, "top_logprobs": 99}, VLLM.server("0.32.0"))
    for message in ("return_token_ids is unknown", "top_logprobs is greater than max allowed: 20"):
        assert VLLM.refused(plan, 400, json.dumps({"error": {"message": message}}).encode()) is None
