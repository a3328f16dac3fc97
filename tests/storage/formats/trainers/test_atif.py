import json
from dataclasses import replace
from typing import Any

import pytest
from atif import Trajectory
from hypothesis import given

from adapters.schema import Choice, RecordedRequest, Session, ToolCall, Trace, Usage
from adapters.token_ids import TokenIds
from storage.formats.flat import sample_from_row
from storage.formats.trainers import atif
from storage.formats.trainers.parts import CannotShape
from storage.samples.build import samples_of
from storage.samples.sample import Sample
from tests.storage.examples import NOON
from tests.storage.formats.examples import QUICK, TOOL_SAMPLE, as_json, same, samples

SESSION = Session("math-17", NOON, "finished", run_id="run-1", group_id="math")
ADD = {"type": "function", "function": {"name": "add", "parameters": {}}}
ASKED = [{"role": "system", "content": "Be exact."}, {"role": "user", "content": "2 + 3?"}]
CALLED = {
    "role": "assistant",
    "tool_calls": [{"id": "id-1", "type": "function", "function": {"name": "add", "arguments": '{"a": 2, "b": 3}'}}],
}
ANSWERED = [*ASKED, CALLED, {"role": "tool", "tool_call_id": "id-1", "content": "5"}]


def call(trace_id: str, turn: int, messages: list[Any], prompt: list[int], *choices: Choice, **fields: Any) -> Trace:
    body = json.dumps({"model": "qwen", "messages": messages, "tools": [ADD]}).encode()
    told: dict[str, Any] = {"model": "qwen", "fidelity": "exact", "logprobs_fidelity": "exact"}
    return Trace(
        trace_id,
        "math-17",
        "chat",
        "ok",
        NOON,
        RecordedRequest(body, {"user-agent": "solver/1.2 (linux)"}),
        turn,
        prompt_token_ids=TokenIds(prompt),
        choices=choices,
        **(told | fields),
    )


FIRST = call(
    "call-1",
    0,
    ASKED,
    [1, 2, 3, 4],
    Choice(
        0,
        TokenIds([10, 11, 12]),
        (-0.1, -0.25, -0.125),
        text="",
        reasoning="I add.",
        tool_calls=(ToolCall("id-1", "add", '{"a": 2, "b": 3}'),),
        finish_reason="tool_calls",
    ),
    usage=Usage(4, 3, 7, cached_tokens=2),
)
SECOND = call(
    "call-2",
    1,
    ANSWERED,
    [1, 2, 3, 4, 10, 11, 12, 5, 6],
    Choice(0, TokenIds([13, 14]), (-1.0, -2.0), text="5.", finish_reason="stop"),
)


def document(*traces: Trace) -> dict[str, Any]:
    """As JSON, with which ATIF's own models are content."""
    told = as_json(atif.trajectory(SESSION, traces, samples_of(SESSION, traces)))
    Trajectory.model_validate(told)
    return told


def test_a_tool_session_is_this_document() -> None:
    told = document(FIRST, SECOND)
    assert told.pop("extra")["rollout"]["session_id"] == "math-17"
    assert told == {
        "schema_version": "ATIF-v1.8",
        "session_id": "math-17",
        "trajectory_id": "math-17/0",
        "agent": {"name": "solver", "version": "1.2", "model_name": "qwen", "tool_definitions": [ADD]},
        "steps": [
            {"step_id": 1, "source": "system", "message": "Be exact."},
            {"step_id": 2, "source": "user", "message": "2 + 3?"},
            {
                "step_id": 3,
                "timestamp": "2026-11-21T12:00:00+00:00",
                "source": "agent",
                "model_name": "qwen",
                "message": "",
                "reasoning_content": "I add.",
                "tool_calls": [
                    {
                        "tool_call_id": "id-1",
                        "function_name": "add",
                        "arguments": {"a": 2, "b": 3},
                        "extra": {"arguments": '{"a": 2, "b": 3}'},
                    }
                ],
                "observation": {"results": [{"source_call_id": "id-1", "content": "5"}]},
                "metrics": {
                    "prompt_tokens": 4,
                    "completion_tokens": 3,
                    "cached_tokens": 2,
                    "prompt_token_ids": [1, 2, 3, 4],
                    "completion_token_ids": [10, 11, 12],
                    "logprobs": [-0.1, -0.25, -0.125],
                    "extra": {"trace_id": "call-1", "index": 0, "fidelity": "exact", "finish_reason": "tool_calls"},
                },
                "llm_call_count": 1,
            },
            {
                "step_id": 4,
                "timestamp": "2026-11-21T12:00:00+00:00",
                "source": "agent",
                "model_name": "qwen",
                "message": "5.",
                "metrics": {
                    "prompt_tokens": 9,
                    "completion_tokens": 2,
                    "prompt_token_ids": [1, 2, 3, 4, 10, 11, 12, 5, 6],
                    "completion_token_ids": [13, 14],
                    "logprobs": [-1, -2],
                    "extra": {"trace_id": "call-2", "index": 0, "fidelity": "exact", "finish_reason": "stop"},
                },
                "llm_call_count": 1,
            },
        ],
        "final_metrics": {
            "total_prompt_tokens": 13,
            "total_completion_tokens": 5,
            "total_steps": 4,
            "extra": {"reward": None},
        },
    }


def test_a_branch_is_a_trajectory_inside_whose_shared_call_is_copied_context() -> None:
    other = replace(SECOND, trace_id="call-3", turn=2, prompt_token_ids=TokenIds([1, 2, 3, 4, 10, 11, 12, 7]))
    told = document(FIRST, SECOND, other)
    (branch,) = told["subagent_trajectories"]
    assert branch["trajectory_id"] == "math-17/1"
    copied = {
        step["metrics"]["extra"]["trace_id"]: step.get("is_copied_context", False)
        for step in branch["steps"]
        if step["source"] == "agent"
    }
    assert copied == {"call-1": True, "call-3": False}


def test_arguments_that_are_no_object_stand_beside() -> None:
    broken = replace(FIRST, choices=(replace(FIRST.choices[0], tool_calls=(ToolCall(None, "add", '{"a": 2'),)),))
    (called,) = document(broken)["steps"][-1]["tool_calls"]
    assert called == {
        "tool_call_id": "",
        "function_name": "add",
        "arguments": {},
        "extra": {"arguments": '{"a": 2'},
    }


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        (
            [{"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "data:,"}}],
            ["What is this?"],
        ),
        (["What?"], []),
        ([], []),
        ({"text": "What?"}, []),
        (7, []),
    ],
)
def test_what_is_no_text_stands_beside(content: object, texts: list[str]) -> None:
    asked = call("call-1", 0, [{"role": "user", "content": content}], [1], Choice(0, TokenIds([2]), (-1.0,)))
    step = document(asked)["steps"][0]
    assert step["message"] == [{"type": "text", "text": text} for text in texts]
    assert step["extra"] == {"content": content}


def test_an_earlier_answer_that_no_call_of_this_path_sampled_is_not_to_be_trained() -> None:
    shown = [{"role": "user", "content": "1 + 1?"}, {"role": "assistant", "content": "2."}, *ASKED]
    step = document(call("call-1", 0, shown, [1], Choice(0, TokenIds([2]), (-1.0,))))["steps"][1]
    assert step == {"step_id": 2, "source": "agent", "message": "2.", "is_copied_context": True}


@pytest.mark.parametrize("body", [None, b"", b"\xff", b"[]", b'{"messages": 7}', b'{"prompt": [1, 2]}'])
def test_a_request_that_can_not_be_read_leaves_the_calls(body: bytes | None) -> None:
    steps = document(replace(FIRST, request=RecordedRequest(body)))["steps"]
    assert [step["source"] for step in steps] == ["agent"]


def test_the_prompt_of_a_legacy_completion_is_what_the_user_said() -> None:
    steps = document(replace(FIRST, request=RecordedRequest(b'{"prompt": "Once"}')))["steps"]
    assert steps[0] == {"step_id": 1, "source": "user", "message": "Once"}


def test_a_sample_without_its_traces_is_refused() -> None:
    with pytest.raises(CannotShape, match="trace call-1 was not given"):
        atif.trajectory(SESSION, [], [TOOL_SAMPLE])


def traces_of(sample: Sample) -> list[Trace]:
    """The calls whose sample it is."""
    ids = sample.token_ids
    return [
        call(
            span.trace_id,
            turn,
            [],
            ids[: span.start].tolist(),
            Choice(span.index, ids[span.start : span.end], tuple(sample.logprobs[span.start : span.end].tolist())),
        )
        for turn, span in enumerate(sample.spans)
    ]


def back(told: dict[str, Any]) -> Sample:
    rollout = told["extra"]["rollout"]
    calls = [step["metrics"] for step in told["steps"] if "metrics" in step]
    ids = [*calls[-1]["prompt_token_ids"], *calls[-1]["completion_token_ids"]]
    mask, logprobs = [0] * len(ids), [0.0] * len(ids)
    for span, metrics in zip(rollout["spans"], calls, strict=True):
        if span["trained"]:
            mask[span["start"] : span["end"]] = [1] * (span["end"] - span["start"])
            logprobs[span["start"] : span["end"]] = metrics["logprobs"]
    return sample_from_row(rollout | {"token_ids": ids, "mask": mask, "logprobs": logprobs})


@QUICK
@given(samples(all_told=True))
def test_nothing_is_lost(sample: Sample) -> None:
    end = sample.spans[-1].end  # What a session's traces come to has nothing behind its last call.
    sample = replace(sample, token_ids=sample.token_ids[:end], mask=sample.mask[:end], logprobs=sample.logprobs[:end])
    told = as_json(atif.trajectory(SESSION, traces_of(sample), [sample]))
    Trajectory.model_validate(told)
    assert same(back(told), sample)


def test_logprobs_with_a_gap_stand_beside() -> None:
    gap = replace(FIRST, choices=(replace(FIRST.choices[0], logprobs=(-0.5, None, -0.125)),))
    told = as_json(atif.trajectory(SESSION, [gap], [replace(TOOL_SAMPLE, spans=TOOL_SAMPLE.spans[:1])]))
    metrics = told["steps"][-1]["metrics"]
    assert "logprobs" not in metrics
    assert metrics["extra"]["logprobs"] == [-0.5, None, -0.125]
