"""Answers as bytes on a connection without a socket: whole, byte by byte and cut at random."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import httpx
import pytest

from gateway.transport.answer import HIGH_WATER, Answer
from gateway.transport.connection import Connection
from gateway.transport.errors import ClosedUnheard
from gateway.transport.question import Question
from gateway.transport.target import Origin

POST = Question(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n", b"{}", True)
HEAD = Question(b"HEAD / HTTP/1.1\r\nhost: a\r\n\r\n", b"", False)


class Wire(asyncio.Transport):
    """The loop's side of a connection, written down."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.aborted = self.paused = False
        self.unwritten = 0

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.written += b"".join(list_of_data)

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False

    def get_write_buffer_size(self) -> int:
        return self.unwritten


class Owner:
    """What a connection told of itself."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def freed(self, connection: Connection) -> None:
        self.told.append("freed")

    def spoiled(self, connection: Connection) -> None:
        self.told.append("spoiled")

    def gone(self, connection: Connection) -> None:
        self.told.append("gone")


class Talk:
    """A connection, its wire and its owner."""

    def __init__(self, question: Question = POST) -> None:
        self.owner, self.wire = Owner(), Wire()
        self.connection = Connection(Origin("http", "a", 80), self.owner)
        self.connection.connection_made(self.wire)
        self.answer: Answer = self.connection.ask(question)

    def hear(self, *parts: bytes) -> None:
        for part in parts:
            if not self.wire.aborted:
                self.connection.data_received(part)

    @property
    def free(self) -> bool:
        return self.owner.told[-1] == "freed" and not self.wire.aborted


async def read(answer: Answer) -> tuple[int, bytes]:
    await answer.begun
    return answer.status, b"".join([piece async for piece in answer])


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE = [
    pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello", True, id="length"),
    pytest.param(b"HTTP/1.1 200\r\ncontent-length: 0\r\n\r\n", 200, b"", True, id="no reason, no bytes"),
    pytest.param(CHUNKED + b"5\r\nhello\r\n6;a=b\r\n world\r\n0\r\n\r\n", 200, b"hello world", True, id="chunked"),
    pytest.param(CHUNKED + b"0\r\n\r\n", 200, b"", True, id="no chunk"),
    pytest.param(CHUNKED + b"5\r\nhello\r\n0\r\nx-a: b\r\nx-c: d\r\n\r\n", 200, b"hello", True, id="trailers"),
    pytest.param(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
        b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\nhi",
        201,
        b"hi",
        True,
        id="informational first",
    ),
    pytest.param(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nhi", 200, b"hi", False, id="close"),
    pytest.param(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nhi", 200, b"hi", False, id="HTTP/1.0"),
    pytest.param(
        b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nhi", 200, b"hi", True, id="1.0 kept"
    ),
    pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", False, id="204"),
    pytest.param(b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", 304, b"", False, id="304 with a length"),
    pytest.param(b"HTTP/1.1 500 Oh\r\ncontent-length: 3\r\n\r\nno!", 500, b"no!", True, id="500"),
    pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi\r\n", 200, b"hi", True, id="an empty line after it"),
]


@pytest.mark.parametrize(("sent", "status", "body", "kept"), WHOLE)
async def test_an_answer_is_the_same_wherever_it_is_cut(sent: bytes, status: int, body: bytes, kept: bool) -> None:
    cuts = [[sent], [sent[at : at + 1] for at in range(len(sent))]]
    cuts += [[sent[:at], sent[at:]] for at in range(1, len(sent))]
    for parts in cuts:
        talk = Talk()
        # Its last empty line, sent apart, comes when nothing is asked: there the connection is closed.
        talk.hear(*parts)
        assert await read(talk.answer) == (status, body), parts
        if b"".join(parts[-1:]).strip() or not sent.endswith(b"hi\r\n"):
            assert talk.free is kept, parts


async def test_many_answers_on_one_connection_do_not_mix() -> None:
    talk = Talk()
    rng = random.Random(1)
    for turn in range(50):
        body = bytes(rng.choices(b"abc\r\n{}", k=rng.randrange(400)))
        at = rng.randrange(len(body) + 1)
        sent = CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:at], body[at:]) if part)
        sent += b"0\r\nx-turn: %d\r\n\r\n" % turn
        while sent:
            size = rng.randrange(1, 60)
            talk.hear(sent[:size])
            sent = sent[size:]
        assert await read(talk.answer) == (200, body)
        assert talk.answer.headers == [(b"transfer-encoding", b"chunked")]
        assert talk.free
        talk.answer = talk.connection.ask(POST)
    assert talk.wire.written == (POST.head + POST.body) * 51


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    talk = Talk()
    talk.hear(b"HTTP/1.1 200 OK\r\n\r\n", b"hello ", b"world")
    talk.connection.eof_received()
    assert await read(talk.answer) == (200, b"hello world")
    assert talk.wire.aborted


async def test_a_body_without_a_length_that_ends_in_a_reset_is_cut_short() -> None:
    talk = Talk()
    talk.hear(b"HTTP/1.1 200 OK\r\n\r\nhello")
    talk.connection.connection_lost(ConnectionResetError("reset"))
    with pytest.raises(httpx.RemoteProtocolError, match="reset"):
        await read(talk.answer)


async def test_the_answer_to_head_ends_with_its_headers() -> None:
    talk = Talk(HEAD)
    talk.hear(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")
    assert await read(talk.answer) == (200, b"")
    assert not talk.free


@pytest.mark.parametrize("sent", [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", CHUNKED + b"5\r\nhello\r\n"])
async def test_what_came_before_a_cut_can_be_read(sent: bytes) -> None:
    talk = Talk()
    talk.hear(sent)
    talk.connection.eof_received()
    await talk.answer.begun
    assert await anext(talk.answer) == b"hello"
    for _ in range(2):
        with pytest.raises(httpx.RemoteProtocolError, match="closed inside the answer"):
            await anext(talk.answer)


async def test_each_cut_of_a_chunked_answer_is_an_error_and_never_an_end() -> None:
    sent = CHUNKED + b"5\r\nhello\r\n6\r\n world\r\n0\r\nx: y\r\n\r\n"
    for at in range(len(sent)):
        talk = Talk()
        if at:
            talk.hear(sent[:at])
        talk.connection.eof_received()
        with pytest.raises(ClosedUnheard if at == 0 else httpx.RemoteProtocolError):
            await read(talk.answer)
        assert talk.wire.aborted


REFUSED = [
    pytest.param(b"220 mail.example ESMTP\r\n\r\n", id="another protocol"),
    pytest.param(b"HTTP/2 200 OK\r\n\r\n", id="another version"),
    pytest.param(b"HTTP/1.1 2x0 OK\r\n\r\n", id="no status"),
    pytest.param(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", id="switched"),
    pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello", id="two lengths"),
    pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\nhello", id="a negative length"),
    pytest.param(
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        id="a length and chunks",
    ),
    pytest.param(b"HTTP/1.1 200 OK\r\na b: c\r\ncontent-length: 0\r\n\r\n", id="a name with a space"),
    pytest.param(b"HTTP/1.1 200 OK\r\na\0: c\r\ncontent-length: 0\r\n\r\n", id="a name with NUL"),
    pytest.param(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 300 + b"content-length: 0\r\n\r\n", id="300 headers"),
    pytest.param(CHUNKED + b"zz\r\nhello\r\n", id="no chunk size"),
    pytest.param(CHUNKED + b"ffffffffffffffffff\r\nhello\r\n", id="a huge chunk size"),
    pytest.param(CHUNKED + b"5\r\nhello!\r\n", id="a chunk longer than its size"),
]


@pytest.mark.parametrize("sent", REFUSED)
async def test_what_is_not_an_http_answer_is_refused(sent: bytes) -> None:
    for parts in ([sent], [sent[at : at + 1] for at in range(len(sent))]):
        talk = Talk()
        talk.hear(*parts)
        with pytest.raises(httpx.RemoteProtocolError):
            await read(talk.answer)
        assert talk.wire.aborted
        assert "freed" not in talk.owner.told


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"a: " + b"b" * 500 + b"\r\n"),
        (b"HTTP/1.1 200 OK\r\na: ", b"b" * 500),
        (b"HTTP/1.1 200 ", b"b" * 500),
        (b"", b"HTTP/1.1 103 Hints\r\nlink: </a>\r\n\r\n"),
        (CHUNKED + b"5\r\nhello\r\n0\r\n", b"a: " + b"b" * 500 + b"\r\n"),
        (CHUNKED + b"5;", b"a=b;" * 100),
    ],
    ids=["headers", "one header", "the reason", "informational answers", "trailers", "chunk extensions"],
)
async def test_headers_without_end_are_refused(begin: bytes, more: bytes) -> None:
    talk = Talk()
    sent = 0
    talk.hear(begin)
    while not talk.wire.aborted:
        talk.hear(more)
        sent += len(more)
        assert sent < 100_000
    with pytest.raises(httpx.RemoteProtocolError):
        await read(talk.answer)


@pytest.mark.parametrize("more", [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", b"x", b"hello"])
async def test_bytes_after_the_end_spoil_the_connection_and_not_the_answer(more: bytes) -> None:
    sent = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    for parts in ([sent + more], [sent, more]):
        talk = Talk()
        talk.hear(*parts)
        assert await read(talk.answer) == (200, b"hello")
        assert talk.wire.aborted
        assert talk.owner.told[-1] == "spoiled"


async def test_an_answer_to_a_request_still_being_written_is_read_and_the_connection_closed() -> None:
    talk = Talk()
    talk.wire.unwritten = 1_000_000
    talk.hear(b"HTTP/1.1 413 Too large\r\ncontent-length: 2\r\n\r\nno")
    assert await read(talk.answer) == (413, b"no")
    assert talk.wire.aborted


async def test_a_reader_that_does_not_read_stops_the_connection_until_it_does() -> None:
    talk = Talk()
    talk.hear(b"HTTP/1.1 200 OK\r\ncontent-length: 10000000\r\n\r\n")
    sent = 0
    while not talk.wire.paused:
        talk.hear(b"x" * 10_000)
        sent += 10_000
    assert HIGH_WATER < sent + 10_000 < HIGH_WATER + 40_000
    assert await anext(talk.answer) == b"x" * sent
    assert not talk.wire.paused


async def test_single_bytes_count_for_what_they_cost() -> None:
    talk = Talk()
    talk.hear(CHUNKED, *[b"1\r\nx\r\n"] * 10_000)
    assert talk.wire.paused


async def test_all_that_one_read_brings_is_one_piece() -> None:
    talk = Talk()
    talk.hear(CHUNKED, b"5\r\nhello\r\n6\r\n world\r\n")
    await talk.answer.begun
    assert await anext(talk.answer) == b"hello world"


async def test_leaving_an_answer_closes_its_connection_and_only_then() -> None:
    talk = Talk()
    talk.hear(CHUNKED + b"5\r\nhello\r\n")
    await talk.answer.aclose()
    await talk.answer.aclose()
    assert talk.wire.aborted
    done = Talk()
    done.hear(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n")
    following = done.connection.ask(POST)
    await done.answer.aclose()
    assert not done.wire.aborted
    done.hear(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
    assert await read(following) == (200, b"hi")


async def test_a_connection_that_is_closed_takes_no_request() -> None:
    talk = Talk()
    talk.hear(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
    talk.wire.aborted = True
    with pytest.raises(ClosedUnheard):
        await talk.connection.ask(POST).begun
