"""A multi-turn agent with a tool against a reasoning model: what it leaves out of its history is found and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from adapters.scripts.replies import by_turn
from adapters.scripts.speech import Called, say
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import HELLO, Running, gateway

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
SPEECHES = (
    say("I look at Paris.", reasoning="Paris comes first.", calls=[Called("look", '{"city": "Paris"}')]),
    say(reasoning="London is next.", calls=[Called("look", '{"city":"London"}')]),
    say("Sunny and rainy.", reasoning="Both are known now."),
    say("You are welcome.", reasoning="They thank me."),
)
Message = dict[str, Any]


async def rollout(served: Running, *, keeps_reasoning: bool) -> None:
    """Two looks, an answer, and one more after the user's thanks."""
    messages: list[Message] = [*HELLO["messages"]]
    for _ in range(len(SPEECHES)):
        answer = await served.chat(session="s", messages=messages, tools=[TOOL], max_tokens=100)
        told: Message = answer.json()["choices"][0]["message"]
        kept = {"role", "content", "tool_calls", *(("reasoning", "reasoning_content") if keeps_reasoning else ())}
        messages.append({name: value for name, value in told.items() if name in kept and value is not None})
        calls = told.get("tool_calls") or []
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in calls]
        if not calls:
            messages.append({"role": "user", "content": "Thanks."})
    finished = await served.agent.post("/api/sessions/s/finish")
    assert finished.status_code == 200


async def read(served: Running, what: str) -> Any:
    answer = await served.agent.get(f"/api/sessions/s/{what}")
    assert answer.status_code == 200
    return answer.json()


@pytest.mark.parametrize("engine", ["vllm", "sglang", "dynamo"])
async def test_reasoning_that_an_agent_leaves_out_is_named_as_the_cause_of_each_break(
    tmp_path: Path, engine: str
) -> None:
    async with (
        running(ScriptedServer(engine, reply=by_turn(*SPEECHES))) as backend,
        gateway(tmp_path, backend) as served,
    ):
        await rollout(served, keeps_reasoning=False)
        drift, samples = await read(served, "drift"), await read(served, "samples")
    assert [call["continuity"] for call in drift["calls"]] == ["starts", "breaks", "breaks", "breaks"]
    assert drift["counts"]["causes"] == {"stripped_reasoning": 3}
    for turn, (call, speech) in enumerate(zip(drift["calls"][1:], SPEECHES, strict=False)):
        broken = call["broken"]
        assert broken["earlier_trace_id"] == drift["calls"][turn]["trace_id"]
        assert broken["region"] == "boundary"
        assert broken["detail"] == f"the reasoning of call {turn} was left out of the history"
        assert speech.text("reasoning") in broken["earlier"]["text"]
        assert speech.text("reasoning") not in broken["later"]["text"]
    assert len(samples["items"]) == 4


@pytest.mark.parametrize("engine", ["vllm", "sglang", "dynamo"])
async def test_a_session_whose_history_keeps_the_reasoning_is_one_sample(tmp_path: Path, engine: str) -> None:
    async with (
        running(ScriptedServer(engine, reply=by_turn(*SPEECHES))) as backend,
        gateway(tmp_path, backend) as served,
    ):
        await rollout(served, keeps_reasoning=True)
        drift, samples = await read(served, "drift"), await read(served, "samples")
    assert [call["continuity"] for call in drift["calls"]] == ["starts", *["extends"] * 3]
    assert drift["counts"]["exact_share"] == 1.0
    [sample] = samples["items"]
    assert sum(sample["mask"]) == sum(len(speech.ids) for speech in SPEECHES)


def _as_messages(told: Message, kinds: set[str]) -> list[Message]:
    """Anthropic's answer as an agent sends it back, and what its tools and its user say to it."""
    kept = [block for block in told["content"] if block["type"] in kinds]
    calls = [block for block in told["content"] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "sunny"} for call in calls]
    return [{"role": "assistant", "content": kept}, {"role": "user", "content": results or "Thanks."}]


def _as_items(told: Message, kinds: set[str]) -> list[Message]:
    """The same of a response."""
    kept = [item for item in told["output"] if item["type"] in kinds]
    calls = [item for item in told["output"] if item["type"] == "function_call"]
    results = [{"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"} for call in calls]
    return [*kept, *(results or [{"role": "user", "content": "Thanks."}])]


ASKED = [{"role": "user", "content": "Say hello."}]
SCHEMA = {"type": "object", "properties": {}}
WAYS: dict[str, tuple[Message, str, Any, set[str], str]] = {
    "messages": (
        {"max_tokens": 100, "tools": [{"name": "look", "input_schema": SCHEMA}]},
        "messages",
        _as_messages,
        {"text", "tool_use"},
        "thinking",
    ),
    "responses": (
        {"tools": [{"type": "function", "name": "look", "parameters": SCHEMA}]},
        "input",
        _as_items,
        {"message", "function_call"},
        "reasoning",
    ),
}


@pytest.mark.parametrize("keeps_reasoning", [False, True])
@pytest.mark.parametrize("dialect", WAYS)
async def test_the_histories_of_other_dialects_are_read_as_well(
    tmp_path: Path, dialect: str, keeps_reasoning: bool
) -> None:
    given, field, sent_back, kinds, thought = WAYS[dialect]
    history: list[Message] = [*ASKED]
    async with (
        running(ScriptedServer("vllm", reply=by_turn(*SPEECHES))) as backend,
        gateway(tmp_path, backend) as served,
    ):
        for _ in range(len(SPEECHES)):
            body = {"model": "scripted", **given, field: history}
            answer = await served.agent.post(f"/sessions/s/v1/{dialect}", json=body)
            assert answer.status_code == 200, answer.text
            history = [*history, *sent_back(answer.json(), kinds | ({thought} if keeps_reasoning else set()))]
        drift = await read(served, "drift")
    if keeps_reasoning:
        # Anthropic's arguments are an object, which this agent's library spells in its own way.
        anew = {"reserialised_tool_arguments": 1} if dialect == "messages" else {}
        assert drift["counts"]["causes"] == anew
        assert drift["counts"]["extends"] == len(SPEECHES) - 1 - len(anew)
    else:
        assert drift["counts"]["causes"] == {"stripped_reasoning": len(SPEECHES) - 1}
        details = [call["broken"]["detail"] for call in drift["calls"][1:]]
        assert details == [f"the reasoning of call {turn} was left out of the history" for turn in range(3)]
