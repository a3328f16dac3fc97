"""What each version gives and refuses: flags of another version or engine visibly fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.scripts import SCRIPTS
from adapters.scripts.asked import BadRequest, read
from adapters.scripts.script import Answer, Stamp, said, version_of
from adapters.scripts.speech import Called, Speech, say

HELLO = say("Hello there.")
CALL = say(calls=[Called("get_weather", '{"city": "Paris"}')])
TOOLS = [{"type": "function", "function": {"name": "get_weather"}}]
STREAM = {"stream": True, "stream_options": {"include_usage": True}}


def ask(
    engine: str, version: str | None = None, variant: str | None = None, speech: Speech = HELLO, /, **fields: Any
) -> Answer:
    given = {"version": version, "variant": variant}
    script = SCRIPTS[engine](model="m", **{name: value for name, value in given.items() if value is not None})
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], **fields}
    asked = read("chat", json.dumps(body).encode(), {})
    return script.answer(asked, said(asked, [speech]), Stamp("id", 0))


def choice(answer: Answer) -> Any:
    return json.loads(answer.body)["choices"][0]


def test_versions_compare_by_their_leading_numbers() -> None:
    assert version_of("0.5.12.post1") == (0, 5, 12)
    assert version_of("0.10.2") > version_of("0.9.9")
    assert version_of("0.33.0rc1") < version_of("0.33.0")


def test_vllm_before_0_10_2_knows_no_ids() -> None:
    answer = ask("vllm", "0.10.1.1", return_token_ids=True)
    assert "token_ids" not in choice(answer)
    assert answer.told == ()


@pytest.mark.parametrize(("version", "lost"), [("0.10.2", True), ("0.12.0", True), ("0.13.0", False)])
def test_vllm_0_10_2_to_0_12_loses_streamed_ids_of_a_tool_call(version: str, lost: bool) -> None:
    answer = ask("vllm", version, None, CALL, return_token_ids=True, tools=TOOLS, **STREAM)
    assert (len(answer.told) < len(CALL.ids)) is lost
    whole = ask("vllm", version, None, CALL, return_token_ids=True, tools=TOOLS)
    assert choice(whole)["token_ids"] == list(CALL.ids)


def test_vllm_up_to_0_25_takes_a_null_of_top_logprobs_for_no_logprobs() -> None:
    assert choice(ask("vllm", "0.20.2", logprobs=True, top_logprobs=None))["logprobs"] is None
    assert choice(ask("vllm", "0.20.2", logprobs=True))["logprobs"] is not None
    assert choice(ask("vllm", "0.30.0", logprobs=True, top_logprobs=None))["logprobs"] is not None


def test_vllm_since_0_27_blanks_ids_with_reasoning_left_out() -> None:
    thought = say("Hi.", reasoning="Hm.")
    assert (
        choice(ask("vllm", "0.33.0", None, thought, return_token_ids=True, include_reasoning=False))["token_ids"]
        is None
    )
    assert choice(ask("vllm", "0.20.2", None, thought, return_token_ids=True, include_reasoning=False))["token_ids"]


@pytest.mark.parametrize(
    ("version", "fields"),
    [("0.11.0", {"reasoning_content"}), ("0.12.0", {"reasoning", "reasoning_content"}), ("0.16.0", {"reasoning"})],
)
def test_vllm_has_named_the_reasoning_in_three_ways(version: str, fields: set[str]) -> None:
    message = choice(ask("vllm", version, None, say("Hi.", reasoning="Hm.")))["message"]
    assert {name for name in message if name.startswith("reasoning")} == fields


def test_vllm_0_33_tells_weight_versions_if_asked() -> None:
    assert choice(ask("vllm", return_weight_versions=True))["weight_versions"] == [
        {"version": "default", "start": 0, "end": len(HELLO.ids)}
    ]
    assert "weight_versions" not in choice(ask("vllm", "0.32.0", return_weight_versions=True))


@pytest.mark.parametrize(
    ("version", "key"),
    [
        ("0.5.12", None),
        ("0.5.16", None),
        ("0.5.17", "token_ids"),
        ("0.5.18", "response_token_ids"),
        ("0.5.23", "response_token_ids"),
    ],
)
def test_sglang_has_named_the_completion_ids_in_two_ways_since_0_5_17(version: str, key: str | None) -> None:
    given = choice(ask("sglang", version, return_token_ids=True))
    assert [name for name in given if name.endswith("token_ids") and name != "prompt_token_ids"] == (
        [key] if key else []
    )


@pytest.mark.parametrize("flag", ["return_token_ids", "return_prompt_token_ids", "return_meta_info"])
def test_sglang_refuses_ids_in_a_chat_stream(flag: str) -> None:
    answer = ask("sglang", **{flag: True}, **STREAM)
    assert answer.status == 400
    assert json.loads(answer.body)["message"].startswith(f"{flag} is not supported with streaming")


def test_sglang_of_a_version_that_does_not_know_a_flag_ignores_it() -> None:
    assert ask("sglang", "0.5.12", return_token_ids=True, return_prompt_token_ids=True, **STREAM).status == 200


@pytest.mark.parametrize(("version", "known"), [("0.5.19", False), ("0.5.20", True)])
def test_sglang_gives_ids_at_the_end_of_a_stream_since_0_5_20(version: str, known: bool) -> None:
    answer = ask("sglang", version, return_output_ids_in_sglext=True, **STREAM)
    assert answer.told == (tuple((0, token_id) for token_id in HELLO.ids) if known else ())


def test_sglang_loses_the_logprobs_of_steps_without_text_in_a_stream() -> None:
    answer = ask("sglang", logprobs=True, **STREAM)
    assert answer.body.count(b'"top_logprobs"') == len(HELLO.ids) - 1


def test_llm360_has_a_flag_and_a_place_of_its_own() -> None:
    given = choice(ask("sglang", "0.5.10", "llm360", return_completion_token_ids=True, return_prompt_token_ids=True))
    assert given["completion_token_ids"] == list(HELLO.ids)
    assert given["prompt_token_ids"]
    refused = ask("sglang", "0.5.10", "llm360", return_completion_token_ids=True, **STREAM)
    assert (refused.status, refused.told) == (400, ())


def test_agentcore_gives_ids_without_being_asked() -> None:
    assert ask("sglang", "0.5.9", "agentcore", **STREAM).told == tuple((0, token_id) for token_id in HELLO.ids)


def test_dynamo_refuses_the_flags_of_others() -> None:
    answer = ask("dynamo", return_token_ids=True)
    assert answer.status == 400
    assert "Unsupported parameter(s): `return_token_ids`" in json.loads(answer.body)["message"]


def test_dynamo_gives_engine_data_where_the_worker_has_any() -> None:
    fields = {"nvext": {"extra_fields": ["engine_data", "completion_token_ids"]}}
    given = json.loads(ask("dynamo", logprobs=True, **fields).body)["nvext"]
    assert given["engine_data"]["completion_token_ids"] == list(HELLO.ids)
    assert given["engine_data"]["completion_logprobs"] == list(HELLO.logprobs)
    assert "engine_data" not in json.loads(ask("dynamo", None, "sglang", **fields).body)["nvext"]


def test_dynamo_before_1_6_gives_no_prompt_ids() -> None:
    fields = {"nvext": {"extra_fields": ["prompt_token_ids", "completion_token_ids"]}}
    assert "prompt_token_ids" not in json.loads(ask("dynamo", "1.5.0", **fields).body)["nvext"]


def test_a_plain_server_never_tells_an_id() -> None:
    answer = ask("openai", return_token_ids=True, logprobs=True, **STREAM)
    assert answer.told == ()
    assert b"_ids" not in answer.body


@pytest.mark.parametrize(("variant", "told"), [(None, 1), ("unasked", 1), ("text", 0)])
def test_a_plain_server_tells_usage_in_its_own_way(variant: str | None, told: int) -> None:
    body = ask("openai", None, variant, **STREAM).body
    assert body.count(b'"completion_tokens"') == told


@pytest.mark.parametrize("engine", SCRIPTS)
def test_with_n_every_engine_keeps_its_choices_apart(engine: str) -> None:
    script = SCRIPTS[engine](model="m")
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "n": 2, "stream": True}
    asked = read("chat", json.dumps(body).encode(), {})
    answer = script.answer(asked, said(asked, [say("one"), say("two")]), Stamp("id", 0))
    chunks = [json.loads(line[6:]) for line in answer.body.split(b"\n\n") if line.startswith(b"data: {")]
    texts = {
        index: "".join(
            each["delta"].get("content") or ""
            for chunk in chunks
            for each in chunk["choices"]
            if each["index"] == index
        )
        for index in (0, 1)
    }
    assert texts == {0: "one", 1: "two"}


@pytest.mark.parametrize("engine", SCRIPTS)
@pytest.mark.parametrize("body", [b"", b"[]", b'{"messages": [', b'{"model": "m"}', b'{"messages": []}'])
def test_what_is_no_request_is_refused_in_the_engines_own_way(engine: str, body: bytes) -> None:
    with pytest.raises(BadRequest) as caught:
        read("chat", body, {})
    answer = SCRIPTS[engine](model="m").unreadable(caught.value)
    assert answer.status == 400
    assert json.loads(answer.body)
