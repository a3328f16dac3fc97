"""Dynamo: what is sent to it, what is read in its answers, what of them an agent sees, and what its probes teach."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adapters.answer import AnswerReader, Outcome
from adapters.detect import Configured, Replies, Reply
from adapters.engines import adapter_for, corrected, identify, probes
from adapters.plan import Plan
from adapters.schema import Capture
from adapters.server import Server
from adapters.token_ids import TokenIds
from tests.adapters.cases import (
    Example,
    Recording,
    chunks_of,
    client_bytes,
    cut_points,
    examples,
    planned,
    recording,
    recordings,
    streamed,
)
from tests.adapters.test_wire_examples import reading

DYNAMO = adapter_for("dynamo")
SCRIPTED = "dynamo-1.6.1-scripted"
MOCKER = "dynamo-1.6.1-mocker-sglang"
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
ONCE: dict[str, Any] = {"model": "m", "prompt": "Once upon"}
BOTH = ["completion_token_ids", "prompt_token_ids"]
ALL = ["completion_token_ids", "engine_data", "prompt_token_ids"]
VLLM_WORKER = DYNAMO.server(variant="vllm")
SGLANG_WORKER = DYNAMO.server(variant="sglang")
UNKNOWN_WORKER = DYNAMO.server()


def sent(body: dict[str, Any], server: Server = VLLM_WORKER, **options: Any) -> dict[str, Any]:
    """What the plan adds to or changes in the agent's body; null for what it removes."""
    _, upstream = planned(body, server, **options)
    return {key: upstream.get(key) for key in {*body, *upstream} if upstream.get(key) != body.get(key)}


def outcome_of(plan: Plan, body: bytes, *, is_stream: bool) -> Outcome:
    return streamed(plan, body)[1] if is_stream else AnswerReader(plan).whole(body)


# --- the request


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


TAKES_ONE = DYNAMO.server(variant="sglang", features={"completion_logprobs"})


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


# --- the recorded answers


CALLS = [
    (folder, one)
    for folder in (SCRIPTED, MOCKER)
    for one in recordings(folder)
    if one.status == 200 and isinstance(one.request, dict) and one.path.endswith("completions")
]


def recorded_plan(one: Recording) -> Plan:
    return planned(one.request, VLLM_WORKER, endpoint="chat" if "chat" in one.path else "completions")[0]


@pytest.mark.parametrize(("folder", "one"), CALLS, ids=lambda value: getattr(value, "name", value))
def test_a_recorded_answer_has_the_ids_that_it_counts(folder: str, one: Recording) -> None:
    outcome = outcome_of(recorded_plan(one), one.body, is_stream=one.streamed)
    told, usage = outcome.completion, outcome.completion.usage
    asked = set((one.request.get("nvext") or {}).get("extra_fields", ()))
    assert told.anomalies == ()
    assert outcome.finished == (one.name != "cut_client_disconnect")
    if "completion_token_ids" in asked and usage is not None and not told.usage_estimated:
        ids = told.choices[0].token_ids
        assert ids is not None
        assert len(ids) == usage.completion_tokens
        assert told.source == "nvext.completion_token_ids"
        prompt_known = "prompt_token_ids" in asked or "token_data" in one.request["nvext"]
        assert outcome.verdict.fidelity == ("exact" if prompt_known else "partial")
    if "logprobs" in one.request:
        assert outcome.verdict.logprobs_fidelity == "exact"
    assert outcome.verdict.fidelity == "none" or asked & {*ALL} or "logprobs" in one.request


@pytest.mark.parametrize("name", ["chat_emoji", "chat_tools", "chat_tools_parallel", "chat_think", "completion"])
def test_a_recorded_stream_folds_into_what_the_whole_answer_says(name: str) -> None:
    whole, stream = recording(SCRIPTED, name), recording(SCRIPTED, f"{name}_stream")
    of_whole = outcome_of(recorded_plan(whole), whole.body, is_stream=False).completion
    of_stream = outcome_of(recorded_plan(stream), stream.body, is_stream=True).completion
    assert of_stream.prompt_token_ids == of_whole.prompt_token_ids
    assert of_stream.usage == of_whole.usage
    assert of_stream.weight_version == of_whole.weight_version == "w-7"
    [one], [other] = of_stream.choices, of_whole.choices
    assert (one.token_ids, one.logprobs, one.text) == (other.token_ids, other.logprobs, other.text)
    assert (one.reasoning, one.finish_reason) == (other.reasoning, other.finish_reason)
    for call, same in zip(one.tool_calls or (), other.tool_calls or (), strict=True):
        assert (call.name, call.arguments) == (same.name, same.arguments)


STREAMS = [one for _, one in CALLS if one.streamed and len(one.body) < 20_000]


@pytest.mark.parametrize("one", STREAMS, ids=lambda one: one.name)
def test_a_recorded_stream_reads_the_same_however_it_is_cut(one: Recording) -> None:
    plan = recorded_plan(one)
    pieces, whole = streamed(plan, one.body)
    client = client_bytes(pieces, whole)
    middle = len(one.body) // 2
    for cuts in [tuple(range(1, len(one.body))), *((middle + offset,) for offset in range(-150, 150))]:
        pieces, outcome = streamed(plan, one.body, *cuts)
        assert outcome.completion == whole.completion
        assert client_bytes(pieces, outcome) == client


@pytest.mark.parametrize("one", STREAMS[:6], ids=lambda one: one.name)
def test_a_recorded_stream_that_breaks_off_keeps_its_ids_and_is_not_exact(one: Recording) -> None:
    plan = recorded_plan(one)
    _, whole = streamed(plan, one.body)
    for end in cut_points(one.body)[::3]:
        _, outcome = streamed(plan, one.body[:end], cut=True)
        for choice, full in zip(outcome.completion.choices, whole.completion.choices, strict=False):
            if choice.token_ids is not None:
                assert full.token_ids is not None
                assert full.token_ids.startswith(choice.token_ids)
        assert outcome.verdict.fidelity != "exact" or outcome.completion.choices == whole.completion.choices


def test_a_stream_cut_before_its_finish_chunk_has_no_prompt_ids() -> None:
    one = recording(SCRIPTED, "chat_stream_usage")
    _, outcome = streamed(recorded_plan(one), one.body[: one.body.index(b'"finish_reason":"stop"')], cut=True)
    assert outcome.completion.prompt_token_ids is None
    assert outcome.verdict.fidelity == "partial"


# --- what the agent sees

PLAIN = [("chat_stream_logprobs", "chat_stream_noflags"), ("chat_plain_logprobs", "chat_plain_noflags")]


@pytest.mark.parametrize(("flagged", "plain"), [*PLAIN, ("completion_logprobs", "completion_noflags")])
def test_an_agent_that_asks_for_nothing_sees_what_dynamo_gives_without_our_flags(flagged: str, plain: str) -> None:
    ours, direct = recording(SCRIPTED, flagged), recording(SCRIPTED, plain)
    fields = {"completion_token_ids", "prompt_token_ids", "engine_data"}
    plan, _ = planned(direct.request, VLLM_WORKER, endpoint="chat" if "chat" in direct.path else "completions")
    body = only(ours.body, fields)
    if direct.streamed:
        pieces, outcome = streamed(plan, body)
        assert [told(chunk) for chunk in chunks_of(client_bytes(pieces, outcome))] == [
            told(chunk) for chunk in chunks_of(direct.body)
        ]
    else:
        outcome = AnswerReader(plan).whole(body)
        assert told(json.loads(outcome.client)) == told(json.loads(direct.body))
    assert outcome.verdict.fidelity == "exact"


def told(chunk: Any) -> Any:
    return {key: value for key, value in chunk.items() if key not in ("id", "created")} if chunk != "[DONE]" else chunk


def only(body: bytes, fields: set[str]) -> bytes:
    """A recording that asked for more of nvext than a plan does, without the rest."""

    def kept(chunk: dict[str, Any]) -> dict[str, Any]:
        if "nvext" in chunk:
            chunk["nvext"] = {key: value for key, value in chunk["nvext"].items() if key in fields}
        return chunk

    if not body.startswith(b"data"):
        return json.dumps(kept(json.loads(body))).encode()
    return b"".join(
        b"data: " + (b"[DONE]" if chunk == "[DONE]" else json.dumps(kept(chunk)).encode()) + b"\n\n"
        for chunk in chunks_of(body)
    )


def test_an_agent_keeps_what_it_asked_for_in_nvext_itself() -> None:
    one = recording(SCRIPTED, "completion_stream")
    plan, _ = planned(
        {**ONCE, "stream": True, "nvext": {"extra_fields": ["worker_id", "timing", "stop_reason", "routed_experts"]}},
        VLLM_WORKER,
        endpoint="completions",
    )
    pieces, outcome = streamed(plan, one.body)
    *chunks, finish, done = chunks_of(client_bytes(pieces, outcome))
    assert all(set(chunk["nvext"]) == {"worker_id"} for chunk in chunks)
    assert set(finish["nvext"]) == {"worker_id", "timing"}
    # Dynamo writes this null of itself; the count was asked for by the gateway alone.
    assert all(chunk["usage"] is None for chunk in [*chunks, finish])
    assert done == "[DONE]"


def test_an_agent_that_asks_by_vllms_flag_gets_the_ids_at_vllms_places_once() -> None:
    one = recording(SCRIPTED, "chat_stream_usage")
    plan, _ = planned({**HELLO, "stream": True, "return_token_ids": True}, VLLM_WORKER)
    pieces, outcome = streamed(plan, only(one.body, set(ALL)))
    *chunks, _ = chunks_of(client_bytes(pieces, outcome))
    ids = [token for chunk in chunks for choice in chunk["choices"] for token in choice.get("token_ids", ())]
    assert ids == (outcome.completion.choices[0].token_ids or TokenIds()).tolist()
    prompts = [chunk["prompt_token_ids"] for chunk in chunks if "prompt_token_ids" in chunk]
    assert prompts == [(outcome.completion.prompt_token_ids or TokenIds()).tolist()]
    assert not any("nvext" in chunk for chunk in chunks)


# --- answers that no recording has


def stream(*chunks: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def part(index: int, text: str, finish: str | None = None, **nvext: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [choice], **({"nvext": nvext} if nvext else {})}


def counted(prompt: int, completion: int) -> dict[str, Any]:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": usage}


def entry(token: int, logprob: float) -> dict[str, Any]:
    return {"token": "t", "token_id": token, "logprob": logprob, "bytes": None, "top_logprobs": []}


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


def whole(*choices: list[dict[str, Any]], nvext: dict[str, Any], completion_tokens: int) -> bytes:
    listed = [
        {
            "index": index,
            "message": {"role": "assistant", "content": "x"},
            "finish_reason": "stop",
            "logprobs": {"content": entries},
        }
        for index, entries in enumerate(choices)
    ]
    usage = {"prompt_tokens": 2, "completion_tokens": completion_tokens}
    return json.dumps({"id": "c", "choices": listed, "usage": usage, "nvext": nvext}).encode()


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


# --- the hand-written examples

# design.md: `exact` needs the engine's own count, and these have none.
WITHOUT_COUNT = {"dynamo/inference_generate.json", "dynamo/chat_completion_token_ids_stream_deltas.sse"}
EXAMPLES = [example for example in examples("dynamo") if example.status == 200]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.file)
def test_an_example_reads_as_expected(example: Example) -> None:
    flags = dict(example.flags)
    endpoint = "completions" if "token_ids" in flags else "chat"
    if "token_ids" in flags:
        flags["prompt"] = flags["token_ids"]
    plan, _ = planned({**flags, "stream": example.streamed}, VLLM_WORKER, endpoint=endpoint)
    outcome = outcome_of(plan, example.body, is_stream=example.streamed)
    expected = example.expected
    prompt = outcome.completion.prompt_token_ids
    assert (None if prompt is None else prompt.tolist()) == (
        expected["prompt_token_ids"] or expected.get("prompt_from_request")
    )
    for choice, wanted in zip(outcome.completion.choices, expected["choices"], strict=True):
        assert {key: reading(choice)[key] for key in wanted} == wanted
    if expected["status"] == "backend_error":
        assert outcome.completion.error is not None
        error = outcome.completion.error
        assert expected["error"] == {"message": error.message, "type": error.type, "code": error.code}
    else:
        fidelity = "partial" if example.file in WITHOUT_COUNT else expected["fidelity"]
        assert outcome.verdict.fidelity == fidelity, outcome.verdict.fidelity_reason
    if example.streamed:
        for cuts in [tuple(range(1, len(example.body))), *((cut,) for cut in cut_points(example.body))]:
            assert streamed(plan, example.body, *cuts)[1].completion == outcome.completion


# --- refusals


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


# --- what it is

HEALTH = (
    b'{"status":"healthy","endpoints":["dyn://dynamo.backend.generate"],"instances":[{"component":"backend",'
    b'"endpoint":"generate","namespace":"dynamo","instance_id":15972749464294392666}]}'
)
MODELS = (
    b'{"object":"list","data":[{"id":"tiny","object":"model","created":1795255398,"owned_by":"nvidia",'
    b'"context_window":2048}]}'
)
NO_ROUTE = Reply(404, body=b'{"message":"Route not found: GET /version","type":"Not Found","code":404}')
REPLIES: Replies = {"/v1/models": Reply(200, body=MODELS), "/version": NO_ROUTE, "/health": Reply(200, body=HEALTH)}


def test_it_is_known_by_its_health_or_by_the_owner_of_all_its_models() -> None:
    renamed = {**REPLIES, "/v1/models": Reply(200, body=MODELS.replace(b"nvidia", b"acme"))}
    for replies in (REPLIES, renamed, {"/v1/models": REPLIES["/v1/models"]}):
        server = identify(replies, Configured())
        assert (server.engine, server.version, server.models, server.known) == ("dynamo", None, ("tiny",), "detected")


def test_nvidias_hosted_models_are_not_a_dynamo() -> None:
    listed = b'{"data":[{"id":"a","owned_by":"nvidia"},{"id":"b","owned_by":"meta"}]}'
    assert identify({"/v1/models": Reply(200, body=listed)}, Configured()).engine == "openai"


def test_its_probes_send_what_its_plans_would() -> None:
    asked = {
        probe.key: (probe.path, json.loads(probe.body or b"")) for probe in probes(identify(REPLIES, Configured()))
    }
    hi = [{"role": "user", "content": "Hi"}]
    chat = {"model": "tiny", "messages": hi, "max_tokens": 1}
    assert asked == {
        "ids": (
            "/v1/chat/completions",
            {**chat, "nvext": {"extra_fields": ["completion_token_ids", "prompt_token_ids", "engine_data"]}},
        ),
        "logprobs": ("/v1/chat/completions", {**chat, "logprobs": True, "top_logprobs": 0}),
        "completion_logprobs": (
            "/v1/completions",
            {"model": "tiny", "prompt": "Hi", "max_tokens": 1, "logprobs": 1},
        ),
    }


def test_a_configured_worker_is_not_probed() -> None:
    server = identify(REPLIES, Configured(engine="dynamo", variant="vllm"))
    assert probes(server) == ()
    assert server.features == VLLM_WORKER.features


def answered(**nvext: Any) -> Reply:
    choice = {"index": 0, "message": {}, "logprobs": None}
    return Reply(200, body=json.dumps({"choices": [choice], "nvext": nvext}).encode())


LOGPROBS = Reply(200, body=b'{"choices":[{"index":0,"logprobs":{"content":[]}}]}')
TOKEN_LOGPROBS = Reply(200, body=b'{"choices":[{"index":0,"logprobs":{"token_logprobs":[-0.5]}}]}')


def test_a_vllm_worker_is_known_by_the_ids_in_its_engine_data() -> None:
    heard = identify(REPLIES, Configured())
    ids = answered(
        completion_token_ids=[5], prompt_token_ids=[1], engine_data={"completion_token_ids": [5], "finished": True}
    )
    server = corrected(heard, {"ids": ids, "logprobs": LOGPROBS, "completion_logprobs": TOKEN_LOGPROBS})
    assert (server.variant, server.known) == ("vllm", "probed")
    assert server.features == VLLM_WORKER.features


def test_another_worker_gives_no_ids_in_its_engine_data_and_may_refuse_logprobs() -> None:
    heard = identify(REPLIES, Configured())
    ids = answered(completion_token_ids=[5], engine_data={"kv_cache_hit": 0})
    refusal = Reply(500, body=b'{"message":"does not currently support logprobs >= 1"}')
    server = corrected(heard, {"ids": ids, "logprobs": LOGPROBS, "completion_logprobs": refusal})
    assert server.variant is None
    # A frontend of before `prompt_token_ids`: its traces are `partial`, and say that the prompt's ids are missing.
    assert server.features == {"usage", "completion_token_ids", "logprobs", "tokens_as_token_ids"}


def test_a_busy_server_teaches_nothing_about_logprobs() -> None:
    heard = identify(REPLIES, Configured())
    busy = Reply(529, body=b'{"message":"overloaded"}')
    server = corrected(heard, {"ids": answered(completion_token_ids=[5], prompt_token_ids=[1]), "logprobs": busy})
    assert "logprobs" in server.features
    assert corrected(heard, {"ids": busy, "logprobs": busy}) == heard
