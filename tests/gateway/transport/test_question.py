"""A request on the wire: one request, whatever its parts hold."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.transport.question import question_of


async def test_head_and_body_are_what_a_server_expects() -> None:
    request = httpx.Request(
        "POST",
        "http://example.com:8000/v1/chat?a=b%20c",
        headers=[(b"content-type", b"application/json"), (b"X-A", b"1"), (b"X-A", b"2")],
        stream=httpx.ByteStream(b"{}"),
    )
    question = await question_of(request)
    assert question.head == (
        b"POST /v1/chat?a=b%20c HTTP/1.1\r\nhost: example.com:8000\r\n"
        b"content-type: application/json\r\nX-A: 1\r\nX-A: 2\r\ncontent-length: 2\r\n\r\n"
    )
    assert question.body == b"{}"


@pytest.mark.parametrize(
    ("method", "line"),
    [("GET", b""), ("HEAD", b""), ("POST", b"content-length: 0\r\n"), ("PUT", b"content-length: 0\r\n")],
)
async def test_an_empty_body_is_told_where_one_is_expected(method: str, line: bytes) -> None:
    question = await question_of(httpx.Request(method, "http://a/", stream=httpx.ByteStream(b"")))
    assert question.head == method.encode() + b" / HTTP/1.1\r\nhost: a\r\n" + line + b"\r\n"


async def test_an_ipv6_host_keeps_its_brackets() -> None:
    question = await question_of(httpx.Request("GET", "http://[::1]:80/", stream=httpx.ByteStream(b"")))
    assert question.head == b"GET / HTTP/1.1\r\nhost: [::1]\r\n\r\n"


async def test_a_body_that_comes_in_parts_is_sent_with_its_length() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    question = await question_of(httpx.Request("POST", "http://a/", content=parts()))
    assert question.body == b"onetwo"
    assert b"transfer-encoding" not in question.head.lower()
    assert b"content-length: 6\r\n" in question.head


@pytest.mark.parametrize(
    "header",
    [
        (b"Content-Length", b"100"),
        (b"transfer-encoding", b"chunked"),
        (b"Host", b"elsewhere"),
        (b"connection", b"upgrade"),
        (b"upgrade", b"h2c"),
    ],
    ids=lambda header: header[0].decode(),
)
async def test_where_a_message_ends_is_no_callers_to_say(header: tuple[bytes, bytes]) -> None:
    request = httpx.Request("POST", "http://a/", headers=[header], stream=httpx.ByteStream(b"{}"))
    assert (await question_of(request)).head == b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\n"


@pytest.mark.parametrize(
    "header",
    [
        (b"x", b"1\r\ny: 2"),
        (b"x", b"1\n"),
        (b"x", b"1\r"),
        (b"x", b"1\r\n\r\nGET /admin HTTP/1.1\r\nhost: a"),
        (b"x", b"\0"),
        (b"x: 1\r\ny", b"2"),
        (b"x y", b"1"),
        (b"x:", b"1"),
        (b"", b"1"),
    ],
    ids=repr,
)
async def test_a_header_never_becomes_two(header: tuple[bytes, bytes]) -> None:
    request = httpx.Request("POST", "http://a/", headers=[header], stream=httpx.ByteStream(b"{}"))
    with pytest.raises(httpx.LocalProtocolError):
        await question_of(request)


@pytest.mark.parametrize("method", ["GET /x HTTP/1.1\r\nA: b\r\n\r\nGET", "", "G T"])
async def test_a_method_is_a_word(method: str) -> None:
    with pytest.raises(httpx.LocalProtocolError):
        await question_of(httpx.Request(method, "http://a/", stream=httpx.ByteStream(b"")))
