"""The event decoder, against every way in which a server may write its events."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.sse import Event, EventTooLarge, SSEDecoder
from tests.adapters.cases import cut_points, examples, recordings

ENGINES = (
    "vllm-0.32.0",
    "sglang-0.5.23",
    "sglang-0.5.23-sglext",
    "sglang-0.5.9-agentcore",
    "dynamo-1.6.1-scripted",
    "dynamo-1.6.1-mocker-sglang",
)
FOLDERS = ("vllm", "sglang", "sglang_agentcore", "dynamo", "generic", "llamacpp", "lmdeploy", "mlx_lm", "trtllm")


def events_of(stream: bytes, *cuts: int) -> list[Event]:
    decoder = SSEDecoder()
    events: list[Event] = []
    for start, end in zip((0, *cuts), (*cuts, len(stream)), strict=True):
        events += decoder.feed(stream[start:end])
    last = decoder.flush()
    return [*events, last] if last is not None else events


def bytewise(stream: bytes) -> list[Event]:
    return events_of(stream, *range(1, len(stream)))


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [Event(b"a")]),
        (b"data:a\n\n", [Event(b"a")]),
        (b"data:  a\n\n", [Event(b" a")]),
        (b"data: a\r\n\r\n", [Event(b"a")]),
        (b"data: a\r\r", [Event(b"a")]),
        (b"data: a\r\n\rdata: b\n\r\n", [Event(b"a"), Event(b"b")]),
        (b"data: a\n\n\n\n\ndata: b\n\n", [Event(b"a"), Event(b"b")]),
        (b"\n\n\ndata: a\n\n", [Event(b"a")]),
        (b"data: a\ndata: b\n\n", [Event(b"a\nb")]),
        (b"data\ndata: b\n\n", [Event(b"\nb")]),
        (b"data: \n\n", [Event(b"")]),
        (b"\xef\xbb\xbfdata: a\n\n", [Event(b"a")]),
        (b"\xef\xbb\xbf\ndata: a\n\n", [Event(b"a")]),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Event(b"a")]),
        (b"event: error\n: it broke\n\n", [Event(None, "error", "it broke")]),
        (b"event: error\r\n: one\r\n:two\r\n\r\n", [Event(None, "error", "one\ntwo")]),
        (b": keep-alive\n\n", [Event(None, "", "keep-alive")]),
        (b":\n\n", [Event(None)]),
        (b"id: 1\nretry: 3000\nevent: message\ndata: a\n\n", [Event(b"a", "message")]),
        (b"datax: a\nunknown\n\n", []),
        (b"data: a", [Event(b"a", terminated=False)]),
        (b"data: a\n", [Event(b"a", terminated=False)]),
        (b"data: a\n\ndata: b\r", [Event(b"a"), Event(b"b", terminated=False)]),
        (b"<html>\n<body>no\n\n</html>", []),
        (b"", []),
    ],
)
def test_an_event_is_read_however_it_is_written_and_cut(stream: bytes, events: list[Event]) -> None:
    assert events_of(stream) == events
    assert bytewise(stream) == events


def test_the_line_separators_of_unicode_end_no_line() -> None:
    text = 'data: {"a":"x\u2028y\u0085z\u2029\x0b\x0c\x1c"}\n\n'.encode()
    assert [event.data for event in events_of(text)] == [text[6:-2]]


@pytest.mark.parametrize("engine", ENGINES)
def test_recorded_events_do_not_depend_on_where_the_bytes_are_cut(engine: str) -> None:
    for recording in recordings(engine):
        if not recording.streamed:
            continue
        events = events_of(recording.body)
        assert events
        assert bytewise(recording.body) == events, recording.name
        for cut in cut_points(recording.body):
            assert events_of(recording.body, cut) == events, (recording.name, cut)


def test_written_events_do_not_depend_on_where_the_bytes_are_cut() -> None:
    for example in examples(*FOLDERS):
        if example.streamed:
            events = events_of(example.body)
            assert bytewise(example.body) == events, example.file
            for cut in cut_points(example.body):
                assert events_of(example.body, cut) == events, (example.file, cut)


PIECES = st.sampled_from(
    [
        b"data: ",
        b"data:",
        b"data",
        b"event: error",
        b": ",
        b":",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"x",
        b"{}",
        b"\xef\xbb\xbf",
    ]
)


@given(st.lists(PIECES, max_size=30).map(b"".join), st.data())
def test_no_stream_reads_differently_in_parts(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    assert events_of(stream, *cuts) == events_of(stream) == bytewise(stream)


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(stream: bytes) -> None:
    assert bytewise(stream) == events_of(stream)


@pytest.mark.parametrize("cuts", [(), (5,), tuple(range(1, 40))])
def test_an_event_over_the_limit_is_an_error_and_what_came_before_it_is_not_lost(cuts: tuple[int, ...]) -> None:
    stream = b"data: a\n\ndata: " + b"x" * 100 + b"\n\ndata: b\n\n"
    decoder = SSEDecoder(limit=50)
    events: list[Event] = []
    refused = 0
    for start, end in zip((0, *cuts), (*cuts, len(stream)), strict=True):
        try:
            events += decoder.feed(stream[start:end])
        except EventTooLarge as exc:
            events += exc.before
            refused += 1
    assert events == [Event(b"a")]
    assert refused == 1
    assert decoder.flush() is None


def test_a_flood_without_line_ends_is_refused_before_it_fills_the_memory() -> None:
    decoder = SSEDecoder(limit=10_000)
    for _ in range(10):
        decoder.feed(b"x" * 1000)
    with pytest.raises(EventTooLarge, match="10000 bytes"):
        decoder.feed(b"x")
    assert decoder.feed(b"data: a\n\n") == []


def test_a_large_event_in_single_bytes_takes_time_in_proportion() -> None:
    def seconds(size: int) -> float:
        decoder = SSEDecoder()
        started = time.process_time()
        for _ in range(size):
            decoder.feed(b"x")
        return time.process_time() - started

    seconds(1000)
    assert seconds(80_000) < 16 * seconds(20_000) + 0.05  # Four times as much; sixteen would be the square.
