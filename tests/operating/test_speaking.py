"""An answer that is cut before its end is understood as no end, in each dialect; an error as one."""

from __future__ import annotations

from typing import Final

import pytest

from tests.faults import canary
from tests.faults.records import Heard
from tests.operating.speaking import DIALECTS, Turn, said

_STREAMS: Final = {
    "chat": (
        b'data: {"choices":[{"index":0,"delta":{"content":"1.1 "},"finish_reason":null}]}\n\n'
        b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    ),
    "completions": (
        b'data: {"choices":[{"index":0,"text":"1.1 ","finish_reason":null}]}\n\n'
        b'data: {"choices":[{"index":0,"text":"","finish_reason":"stop"}]}\n\n'
        b"data: [DONE]\n\n"
    ),
    "messages": (
        b"event: content_block_delta\n"
        b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"1.1 "}}\n\n'
        b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
        b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
    ),
    "responses": (
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"1.1 "}\n\n'
        b'event: response.completed\ndata: {"type":"response.completed","response":{}}\n\n'
    ),
}
_BROKEN: Final = {
    "chat": b'data: {"error":{"message":"gone"}}\n\n',
    "completions": b'data: {"error":{"message":"gone"}}\n\n',
    "messages": b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"gone"}}\n\n',
    "responses": b'event: error\ndata: {"type":"error","message":"gone"}\n\n',
}


def heard(dialect: str, body: bytes, *, status: int = 200, stream: bool = True) -> Heard:
    return Heard(1, "s", status=status, body=body, end="whole", stream=stream, dialect=dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stream_is_done_with_its_last_event_and_not_before(dialect: str) -> None:
    stream = _STREAMS[dialect]
    told = said(heard(dialect, stream))
    assert (told.text, told.finished, told.error, told.done) == ("1.1 ", True, None, True)
    for cut in range(len(stream)):
        assert not said(heard(dialect, stream[:cut])).done


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_event_and_an_error_status_are_errors(dialect: str) -> None:
    assert "gone" in (said(heard(dialect, _BROKEN[dialect])).error or "")
    for stream in (True, False):
        refused = said(heard(dialect, b'{"error":{"message":"no"}}', status=503, stream=stream))
        assert (refused.finished, refused.error) == (False, '{"error":{"message":"no"}}')


def test_a_session_is_one_token_sequence_also_for_an_agent_that_keeps_its_tokens() -> None:
    text = canary.answer(3, 2, 0).text("content")
    asked = DIALECTS["completions"].asked([Turn(3, text)], 7)
    assert asked["prompt"] == [canary.asked_id(3), *canary.sampled_ids(3, 2), canary.asked_id(7)]
