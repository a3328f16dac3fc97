"""The reader of answers: what the agent gets and when, what is recorded, and what no backend may break."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.answer import DONE, AnswerReader, Piece
from adapters.schema import Error
from tests.adapters.cases import chunks_of, client_bytes, streamed
from tests.adapters.small_stream import COUNTED, FIRST, LAST, ROLE, USAGE, plan_for, read, sse


def test_an_answer_is_given_piece_by_piece_and_read_at_its_end() -> None:
    pieces, outcome = read(ROLE, FIRST, LAST, COUNTED, DONE)
    assert [chunks_of(piece.client) for piece in pieces] == [
        [{"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant"}}]}],
        [{"id": "c", "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]}],
        [{"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}],
        [],
        ["[DONE]"],
    ]
    assert [piece.ends for piece in pieces] == [False, False, True, True, True]
    assert outcome.client == b""
    assert outcome.finished
    assert outcome.verdict.fidelity == "exact"
    assert [list(choice.token_ids or ()) for choice in outcome.completion.choices] == [[7, 8]]


def test_the_end_waits_for_the_last_of_several_choices() -> None:
    def ending(index: int) -> dict[str, Any]:
        return {"choices": [{"index": index, "delta": {}, "finish_reason": "stop"}]}

    pieces, _ = read(ending(1), ending(1), ending(0), ending(2), plan=plan_for(n=3))
    assert [piece.ends for piece in pieces] == [False, False, False, True]


def test_comments_and_empty_events_bring_nothing() -> None:
    pieces, _ = read(b": keep-alive\n\n", b":\n\n", FIRST)
    assert len(pieces) == 1


def test_a_stream_without_done_is_ended_for_the_agent_when_its_choices_are() -> None:
    _, outcome = read(ROLE, FIRST, LAST, COUNTED)
    assert outcome.finished
    assert outcome.client == DONE


@pytest.mark.parametrize("chunks", [(), (ROLE,), (ROLE, FIRST)])
def test_a_stream_that_breaks_off_is_never_ended_for_the_agent(chunks: tuple[Any, ...]) -> None:
    for cut in (False, True):
        _, outcome = read(*chunks, cut=cut)
        assert not outcome.finished
        assert outcome.client == b""
        assert outcome.verdict.fidelity in ("none", "partial")


def test_a_last_event_without_a_blank_line_counts() -> None:
    _, outcome = read(ROLE, FIRST, LAST, COUNTED, b"data: [DONE]")
    assert outcome.finished
    assert outcome.client == DONE
    assert outcome.verdict.fidelity == "exact"


def test_a_second_done_is_swallowed_and_harmless() -> None:
    pieces, outcome = read(ROLE, FIRST, LAST, COUNTED, DONE, DONE)
    assert client_bytes(pieces, outcome).count(b"[DONE]") == 1
    assert outcome.verdict.fidelity == "exact"


def test_data_after_the_end_is_odd_and_not_given_on() -> None:
    pieces, outcome = read(ROLE, FIRST, LAST, COUNTED, DONE, FIRST)
    assert len(pieces) == 5
    assert outcome.verdict.fidelity == "partial"
    assert outcome.verdict.fidelity_reason == "data after the end of the stream"
    assert list(outcome.completion.choices[0].token_ids or ()) == [7, 8]


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (
            {"error": {"message": "it broke", "type": "server_error", "code": 500}},
            Error("it broke", "server_error", 500),
        ),
        ({"error": "it broke"}, Error("it broke")),
        ({"object": "error", "message": "it broke", "type": "Oops", "code": 503}, Error("it broke", "Oops", 503)),
        (b"event: error\n: it broke\n\n", Error("it broke")),
        (b'event: error\ndata: {"error":{"message":"it broke","code":"x"}}\n\n', Error("it broke", None, "x")),
        (b'event: error\ndata: {"message":"it broke"}\n\n', Error("it broke")),
        (b"event: error\ndata: it broke\n\n", Error("it broke")),
        (b"event: error\n\n", Error("the backend told an error without words")),
    ],
)
def test_an_error_in_a_stream_is_told_and_the_tokens_before_it_are_kept(event: Any, error: Error) -> None:
    pieces, outcome = read(ROLE, FIRST, event, DONE)
    assert pieces[2] == Piece(ends=True, error=error)
    assert outcome.completion.error == error
    assert not outcome.finished
    assert outcome.client == b""
    assert list(outcome.completion.choices[0].token_ids or ()) == [7]
    assert outcome.verdict.fidelity == "partial"
    assert outcome.verdict.fidelity_reason == f"the engine broke off: {error.message}"


def test_a_chunk_that_is_not_json_is_odd_and_the_rest_is_read() -> None:
    pieces, outcome = read(ROLE, b"data: {oops\n\n", FIRST, LAST, COUNTED, DONE)
    assert len(pieces) == 5
    assert outcome.verdict.fidelity == "partial"
    assert "a chunk cannot be read" in (outcome.verdict.fidelity_reason or "")
    assert list(outcome.completion.choices[0].token_ids or ()) == [7, 8]


@pytest.mark.parametrize("choices", [7, "none", [None], [{"index": "first", "delta": {}}]])
def test_choices_that_are_none_are_not_given_on_to_an_agent_that_would_loop_over_them(choices: Any) -> None:
    pieces, outcome = read(ROLE, FIRST, {"id": "c", "choices": choices}, LAST, COUNTED, DONE)
    assert [told for piece in pieces for told in chunks_of(piece.client) if told != "[DONE]"] == [
        {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant"}}]},
        {"id": "c", "choices": [{"index": 0, "delta": {"content": "a"}, "finish_reason": None}]},
        {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    assert outcome.verdict.fidelity == "partial"


@pytest.mark.parametrize("body", [b"<html><body>502 Bad Gateway</body></html>", b"", b"\n\n\n", b"hello\n\nworld\n\n"])
def test_what_is_no_stream_at_all_has_no_choices(body: bytes) -> None:
    pieces, outcome = streamed(plan_for(), body)
    assert pieces == []
    assert not outcome.finished
    assert outcome.verdict.fidelity == "none"
    assert outcome.verdict.fidelity_reason == "the engine gave no choice"


@pytest.mark.parametrize("body", [b"<html>no</html>", b"", b"[]", b"5", b'{"a"', b"\xff\xfe", b"[" * 100_000])
def test_a_body_that_is_no_object_is_an_error_of_the_backend(body: bytes) -> None:
    outcome = AnswerReader(plan_for(stream=False)).whole(body)
    assert not outcome.finished
    assert outcome.client == b""
    assert outcome.completion.error is not None
    assert "not a JSON object" in outcome.completion.error.message
    assert outcome.verdict.fidelity == "none"


def test_a_body_with_an_error_under_status_200_is_one() -> None:
    outcome = AnswerReader(plan_for(stream=False)).whole(b'{"error":{"message":"no"}}')
    assert outcome.completion.error == Error("no")
    assert not outcome.finished


def test_an_event_over_the_limit_is_an_error_and_the_reader_goes_on_reading_nothing() -> None:
    reader = AnswerReader(plan_for(), max_event=300)
    pieces = reader.feed(sse(ROLE, FIRST) + b"data: " + b"x" * 1000)
    assert [piece.error is not None for piece in pieces] == [False, False, True]
    assert reader.feed(sse(LAST)) == []
    outcome = reader.finish()
    assert list(outcome.completion.choices[0].token_ids or ()) == [7]
    assert not outcome.finished


def test_a_line_of_ten_megabytes_is_one_chunk_like_any_other() -> None:
    text = "x\u2028" * 2_500_000
    large = {"choices": [{"index": 0, "delta": {"content": text}, "token_ids": [7, 8], "finish_reason": "stop"}]}
    body = b"data: " + json.dumps(large, ensure_ascii=False).encode() + b"\n\n"
    assert len(body) > 10_000_000
    reader = AnswerReader(plan_for())
    pieces = [
        *reader.feed(sse(ROLE)),
        *(piece for start in range(0, len(body), 65_536) for piece in reader.feed(body[start : start + 65_536])),
        *reader.feed(sse(COUNTED, DONE)),
    ]
    outcome = reader.finish()
    assert len(pieces[1].client) > 10_000_000
    assert outcome.completion.choices[0].text == text
    assert outcome.verdict.fidelity == "exact"


def test_named_events_that_are_no_chunks_go_to_the_agent_as_they_are() -> None:
    pieces, outcome = read(b'event: llm_metrics\ndata: {"a":1}\ndata: 2\n\n', ROLE, FIRST, LAST, COUNTED, DONE)
    assert pieces[0].client == b'event: llm_metrics\ndata: {"a":1}\ndata: 2\n\n'
    assert outcome.verdict.fidelity == "exact"


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ([7, None], "not a list of token ids"),
        ([7.0], "not a list of token ids"),
        (["7"], "not a list of token ids"),
        ([True], "not a list of token ids"),
        ([-1], "not a list of token ids"),
        ([2**31], "not a list of token ids"),
        ({"a": 1}, "token_ids: not a list"),
        ("7", "token_ids: not a list"),
    ],
)
def test_what_are_no_ids_are_never_taken_for_some(ids: Any, reason: str) -> None:
    lying = {"choices": [{"index": 0, "delta": {"content": "x"}, "token_ids": ids, "finish_reason": "stop"}]}
    for outcome in (
        read(ROLE, lying, COUNTED, DONE)[1],
        AnswerReader(plan_for(stream=False)).whole(
            json.dumps({"choices": [{**lying["choices"][0], "message": {}}], "usage": USAGE}).encode()
        ),
    ):
        assert outcome.completion.choices[0].token_ids is None
        assert outcome.verdict.fidelity == "none"
        assert "token_ids" in (outcome.verdict.fidelity_reason or "")
        assert outcome.completion.anomalies
        assert reason in outcome.completion.anomalies[0] or isinstance(ids, dict | str)


def test_deltas_can_be_left_out_where_nobody_reads_them() -> None:
    reader = AnswerReader(plan_for(), typed=False)
    assert all(piece.deltas == () for piece in reader.feed(sse(ROLE, FIRST, LAST)))


def test_the_agents_bytes_can_be_left_out_where_nobody_sends_them() -> None:
    both, silent = AnswerReader(plan_for()), AnswerReader(plan_for(), relays=False)
    stream = sse(ROLE, FIRST, LAST, COUNTED, DONE)
    heard = [piece for piece in both.feed(stream) if piece.deltas or piece.ends]
    assert [(piece.client, piece.deltas, piece.ends) for piece in silent.feed(stream)] == [
        (b"", piece.deltas, piece.ends) for piece in heard
    ]
    ended, silently = both.finish(), silent.finish()
    assert (silently.client, silently.completion, silently.finished) == (b"", ended.completion, True)


EVENTS = st.sampled_from(
    [
        *(sse(one) for one in (ROLE, FIRST, LAST, COUNTED, DONE)),
        b": c\n\n",
        b"event: x\ndata: 1\n\n",
        b"data: {\n\n",
        b"data: null\n\n",
        b"data: []\n\n",
        b"data\n\n",
        b"\r\n",
        b"event: error\n\n",
        sse({"choices": [{"index": 5, "delta": None, "token_ids": [1]}]}),
        sse({"choices": [{"index": 0, "text": "x", "logprobs": {"token_logprobs": [None, "x"]}}]}),
        sse({"choices": None, "error": None, "usage": 5}),
    ]
)


@given(st.lists(EVENTS, max_size=12), st.booleans(), st.data())
def test_no_stream_breaks_the_reader_and_none_reads_differently_in_parts(
    events: list[bytes], cut: bool, data: st.DataObject
) -> None:
    body = b"".join(events)
    plan = plan_for()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=4)))
    pieces, outcome = streamed(plan, body, cut=cut)
    again, same = streamed(plan, body, *cuts, cut=cut)
    assert outcome == same
    assert client_bytes(again, same) == client_bytes(pieces, outcome)
    if outcome.verdict.fidelity == "exact":
        assert (
            events[:5] == [sse(ROLE), *events[1:5]]
            or sum(len(c.token_ids or ()) for c in outcome.completion.choices) == 2
        )


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(body: bytes) -> None:
    for plan in (plan_for(), plan_for(stream=False)):
        assert streamed(plan, body)[1].verdict.fidelity == "none"
        assert AnswerReader(plan).whole(body).verdict.fidelity == "none"
