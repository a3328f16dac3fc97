import json
from typing import Any

from hypothesis import given

from adapters.schema import Choice, Error, RecordedRequest, RoutedExperts, Sampling, ToolCall, Trace, Usage, WeightSpan
from adapters.token_ids import TokenIds
from storage.formats import schemas, traces
from storage.formats.columns import record_batch
from tests.storage.examples import NOON
from tests.storage.examples import traces as any_trace
from tests.storage.formats.examples import QUICK

CALL = Trace(
    trace_id="call-1",
    session_id="math-17",
    dialect="chat",
    status="ok",
    started_at=NOON,
    request=RecordedRequest(b'{"model": "qwen", "n": 2}', {"user-agent": "harness"}),
    turn=0,
    sampling=Sampling({"n": 2}, {"n": 2, "temperature": 0.7}),
    prompt_token_ids=TokenIds([1, 2, 3]),
    choices=(
        Choice(
            0,
            TokenIds([10, 151645]),
            (-0.1, None),
            text="Hello",
            tool_calls=(ToolCall("id-1", "add", '{"a": 1}'),),
            stop_reason=151645,
            weight_versions=(WeightSpan("7", 0, 2),),
            routed_experts=RoutedExperts(b"\x00\x01", (1, 2), "|u1"),
        ),
        Choice(1, TokenIds([11]), None, stop_reason="###"),
    ),
    usage=Usage(3, 3, 6),
    fidelity="exact",
)


def as_read(trace: Trace) -> dict[str, Any]:
    (row,) = record_batch([traces.row(trace)], schemas.TRACES).to_pylist()
    return dict(row)


def test_a_call_with_two_choices_is_one_row() -> None:
    row = as_read(CALL)
    assert row["prompt_token_ids"] == [1, 2, 3]
    assert [choice["token_ids"] for choice in row["choices"]] == [[10, 151645], [11]]
    assert [choice["logprobs"] for choice in row["choices"]] == [[-0.1, None], None]
    assert row["choices"][0]["tool_calls"] == [{"id": "id-1", "name": "add", "arguments": '{"a": 1}'}]
    assert row["choices"][0]["weight_versions"] == [{"version": "7", "start": 0, "end": 2}]
    assert row["choices"][0]["routed_experts"] == {"data": b"\x00\x01", "shape": [1, 2], "dtype": "|u1"}
    assert row["choices"][1]["tool_calls"] is None
    assert row["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 3,
        "total_tokens": 6,
        "cached_tokens": None,
        "reasoning_tokens": None,
    }
    assert row["started_at"] == NOON


def test_the_request_is_what_the_agent_sent_byte_for_byte() -> None:
    assert as_read(CALL)["request"] == {
        "body": b'{"model": "qwen", "n": 2}',
        "headers": '{"user-agent":"harness"}',
    }


def test_what_has_no_type_of_its_own_is_json_text() -> None:
    row = as_read(CALL)
    assert row["sampling"] == {"requested": '{"n":2}', "effective": '{"n":2,"temperature":0.7}'}
    assert [choice["stop_reason"] for choice in row["choices"]] == ["151645", "###"]
    assert row["metadata"] == "{}"


def test_a_call_that_failed_is_a_row_without_choices() -> None:
    refused = Trace(
        "call-2", "math-17", "chat", "backend_error", NOON, RecordedRequest(None), error=Error("no", code=400)
    )
    row = as_read(refused)
    assert row["choices"] == []
    assert row["prompt_token_ids"] is None
    assert row["request"]["body"] is None
    assert row["error"] == {"message": "no", "type": None, "code": "400", "param": None}


@QUICK
@given(any_trace("math-17"))
def test_ids_logprobs_and_bodies_are_those_of_the_trace(trace: Trace) -> None:
    row = as_read(trace)
    assert row["request"]["body"] == trace.request.body
    assert row["prompt_token_ids"] == (None if trace.prompt_token_ids is None else trace.prompt_token_ids.tolist())
    for told, choice in zip(row["choices"], trace.choices, strict=True):
        assert told["token_ids"] == (None if choice.token_ids is None else choice.token_ids.tolist())
        assert told["logprobs"] == (None if choice.logprobs is None else list(choice.logprobs))
        assert told["text"] == choice.text
    assert json.loads(row["sampling"]["effective"]).keys() == trace.sampling.effective.keys()
