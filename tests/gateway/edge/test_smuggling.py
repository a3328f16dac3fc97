"""No request within a request, and no header that was meant for the next hop alone (docs/promises.md D15)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
import pytest_asyncio

from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.edge.wire import (
    BODY,
    Told,
    answer_on,
    answers,
    byte_by_byte,
    chunked,
    connected,
    kept,
    request,
    sent,
)
from tests.gateway.harness import CHAT, Running, gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

SMUGGLED = request("x-request-id: smuggled", body=b'{"model": "smuggled", "messages": []}')
LENGTH = f"Content-Length: {len(BODY)}"

# Two servers in a row could take each of these for different requests.
REFUSED = {
    "a length beside a coding": request(LENGTH, "Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SMUGGLED),
    "a coding beside a length": request("Transfer-Encoding: chunked", LENGTH, body=b"0\r\n\r\n" + SMUGGLED),
    "two lengths that differ": request("Content-Length: 0", LENGTH),
    "two lengths that are equal": request(LENGTH, LENGTH),
    "a list of lengths": request(f"{LENGTH}, {len(BODY)}"),
    "a length with a sign": request(f"Content-Length: +{len(BODY)}"),
    "a negative length": request("Content-Length: -1"),
    "a hexadecimal length": request("Content-Length: 0x10"),
    "a length beyond all numbers": request("Content-Length: 99999999999999999999999999"),
    "no length after its name": request("Content-Length:"),
    "a coding behind chunked": request("Transfer-Encoding: chunked, identity", body=chunked()),
    "a coding before chunked": request("Transfer-Encoding: identity, chunked", body=chunked()),
    "compressed and chunked": request("Transfer-Encoding: gzip, chunked", body=chunked()),
    "an empty coding before chunked": request("Transfer-Encoding: ,chunked", body=chunked()),
    "no coding but identity": request("Transfer-Encoding: identity"),
    "an unknown coding": request("Transfer-Encoding: xchunked", body=chunked()),
    "a coding in quotes": request('Transfer-Encoding: "chunked"', body=chunked()),
    "a coding with a parameter": request("Transfer-Encoding: chunked;a=b", body=chunked()),
    "chunked twice": request("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=chunked()),
    "chunked behind a control character": request("Transfer-Encoding: \x0bchunked", body=chunked()),
    "a coding in HTTP/1.0": request("Transfer-Encoding: chunked", version="1.0", body=chunked()),
    "a space before the colon": request("Transfer-Encoding : chunked", body=chunked()),
    "a tab before the colon": request("Content-Length\t: 5"),
    "a folded header": request("X-Folded: a\r\n Transfer-Encoding: chunked", body=chunked()),
    "a header that begins with a space": request(" X-First: a"),
    "a value that begins on the next line": request("Transfer-Encoding:\r\n chunked", body=chunked()),
    "a bare CR in a value": request("X-A: b\rTransfer-Encoding: chunked"),
    "a bare LF in a value": request("X-A: b\nTransfer-Encoding: chunked"),
    "bare LFs everywhere": request().replace(b"\r\n", b"\n"),
    "a NUL in a value": request("X-A: b\0c"),
    "a NUL in a name": request("X\0A: b"),
    "a control character in a value": request("X-A: b\x01c"),
    "a header without a name": request(": b"),
    "a header without a colon": request("X-A"),
    "two hosts": request("Host: other"),
    "no host": request().replace(b"Host: gateway\r\n", b""),
    "a chunk's size with LF alone": request("Transfer-Encoding: chunked", body=chunked().replace(b"\r\n", b"\n", 1)),
    "a chunk's size with 0x": request("Transfer-Encoding: chunked", body=b"0x" + chunked()),
    "a space behind a chunk's size": request("Transfer-Encoding: chunked", body=chunked(extension=b" ")),
    "a chunk longer than it says": request(
        "Transfer-Encoding: chunked", body=chunked().replace(b"\r\n0\r\n", b"XX\r\n0\r\n")
    ),
    "a chunk's size beyond all numbers": request("Transfer-Encoding: chunked", body=b"f" * 17 + chunked()),
    "an extension with an open quote": request("Transfer-Encoding: chunked", body=chunked(extension=b';a="b')),
    "a space in the target": request(target="/v1/chat completions"),
    "a tab behind the method": request().replace(b"POST ", b"POST\t", 1),
    "a NUL in the target": request(target="/v1/\0chat"),
    "bytes beyond ASCII in the target": request(target="/v1/chat/\xff"),
    "a method that is none": request(method="SMUGGLE"),
    "a method in lower case": request(method="post"),
}

# These are read in one way alone, or the odd part of them is nobody's.
SERVED = {
    "spaces around a length": request(f"Content-Length:  {len(BODY)} "),
    "chunks": request("Transfer-Encoding: chunked", body=chunked()),
    "chunked in capitals": request("Transfer-Encoding: CHUNKED", body=chunked()),
    "an extension of a chunk": request("Transfer-Encoding: chunked", body=chunked(extension=b";a=b")),
    "the gateway named in the target": request(target=f"http://elsewhere{CHAT}"),
    "an empty line before the request": b"\r\n" + request(),
    "HTTP/1.0": request(version="1.0"),
    "an offer of HTTP/2": request("Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
    .replace(b"Connection: close", b"Connection: Upgrade, HTTP2-Settings")
    .replace(b"HTTP2-Settings: ", b"Connection: close\r\nHTTP2-Settings: ", 1),
    "an offer of a web socket": request("Upgrade: websocket", "Connection: upgrade"),
}


@dataclass(frozen=True, slots=True)
class Pair:
    server: ScriptedServer
    gateway: Running

    def posts(self) -> list[bytes]:
        return [call.body for call in self.server.requests if call.method == "POST"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    server = ScriptedServer("vllm")
    async with running(server) as url, gateway(tmp_path_factory.mktemp("smuggling"), url) as served:
        yield Pair(server, served)


@pytest.mark.parametrize("send", [sent, byte_by_byte], ids=["in one piece", "byte by byte"])
@pytest.mark.parametrize("odd", REFUSED)
async def test_what_two_servers_could_read_in_two_ways_is_refused_and_the_connection_ends(
    pair: Pair, odd: str, send: Callable[[str, bytes], Awaitable[bytes]]
) -> None:
    before = len(pair.posts())
    [told] = answers(await send(pair.gateway.url, REFUSED[odd] + SMUGGLED))
    assert told.status == 400
    assert told.headers["connection"] == "close"
    assert told.headers["content-type"] == "application/json"
    assert json.loads(told.body)["error"]["message"]
    assert len(pair.posts()) == before


@pytest.mark.parametrize("odd", SERVED)
async def test_what_can_be_read_in_one_way_alone_is_one_call(pair: Pair, odd: str) -> None:
    before = len(pair.posts())
    [told] = answers(await sent(pair.gateway.url, SERVED[odd]))
    assert (told.status, told.body[:1]) == (200, b"{")
    assert len(pair.posts()) == before + 1


@pytest.mark.parametrize("together", [True, False], ids=["in one piece", "while the first runs"])
async def test_a_second_request_before_the_first_is_answered_is_nobodys(pair: Pair, *, together: bool) -> None:
    before = len(pair.posts())
    first = kept(request())
    pieces = [first + SMUGGLED] if together else [first, SMUGGLED]
    pair.server.faults.append(Fault(delay=0.3))
    [told] = answers(await sent(pair.gateway.url, *pieces))
    assert (told.status, len(pair.posts())) == (200, before + 1)


async def test_one_request_after_the_other_on_a_connection_is_two_calls(pair: Pair) -> None:
    before = len(pair.posts())
    async with connected(pair.gateway.url) as (reader, writer):
        for _ in range(2):
            writer.write(kept(request()))
            assert json.loads((await answer_on(reader)).body)["choices"]
    assert len(pair.posts()) == before + 2


async def test_trailers_are_no_headers(pair: Pair) -> None:
    trailers = b"x-rollout-session-id: smuggled\r\nx-request-id: smuggled\r\nAuthorization: Bearer x\r\n"
    [told] = answers(
        await sent(pair.gateway.url, request("Transfer-Encoding: chunked", body=chunked(trailers=trailers)))
    )
    assert told.status == 200
    assert "smuggled" not in told.headers.values()
    assert (pair.server.requests[-1].header("x-request-id") or "") != "smuggled"


@pytest.mark.parametrize("named", ["x-request-id", "keep-alive, X-Request-Id", "x-request-id , close"])
async def test_a_header_that_connection_names_is_for_the_next_hop_alone(pair: Pair, named: str) -> None:
    both = request("x-request-id: mine", "traceparent: 00-1-2-03").replace(
        b"Connection: close\r\n", b"Connection: close\r\nConnection: " + named.encode() + b"\r\n"
    )
    [told] = answers(await sent(pair.gateway.url, both))
    assert told.status == 200
    sent_on = pair.server.requests[-1]
    assert sent_on.header("x-request-id") != "mine"
    assert sent_on.header("traceparent") == "00-1-2-03"
    assert told.headers["x-request-id"] != "mine"


async def test_a_backend_gets_the_headers_of_the_list_and_no_other(pair: Pair) -> None:
    odd = ["cookie: a=b", "x-forwarded-for: 1.2.3.4", "te: trailers", "proxy-authorization: x", "forwarded: for=x"]
    [told] = answers(await sent(pair.gateway.url, request("authorization: Bearer secret", *odd)))
    assert told.status == 200
    names = [name for name, _ in pair.server.requests[-1].headers]
    allowed = {"accept", "accept-encoding", "content-length", "content-type", "host", "user-agent", "x-request-id"}
    assert set(names) <= allowed
    assert len(names) == len(set(names))


async def test_an_agent_gets_nothing_of_a_backends_headers_but_when_to_come_back(pair: Pair) -> None:
    odd = {"set-cookie": "a=b", "x-session-id": "other", "transfer-encoding-x": "a", "location": "http://elsewhere/"}
    for fault in [
        Fault(headers=odd),
        Fault(headers={**odd, "retry-after": "7"}, status=429, body=b'{"error": {"message": "busy"}}'),
        Fault(headers={**odd, "retry-after": "7", "connection": "retry-after"}, status=429, body=b"{}"),
    ]:
        pair.server.faults.append(fault)
        told = await _called(pair)
        assert not {"set-cookie", "location", "transfer-encoding-x"} & told.headers.keys()
        assert told.headers["x-session-id"] != "other"
        named = "connection" in fault.headers
        assert told.headers.get("retry-after") == ("7" if fault.status and not named else None)


@pytest.mark.parametrize(
    "value", [b"7\r\nx-split: yes", b"7\nx-split: yes", b"7\rx-split: yes", b"7\x01", b"7\x7f", b"\xff7"]
)
async def test_no_answer_is_split_by_what_a_backend_says(pair: Pair, value: bytes) -> None:
    head = b"HTTP/1.1 429 Too Many\r\nretry-after: %s\r\ncontent-length: 2\r\n\r\n{}" % value
    pair.server.faults.extend([Fault(raw=head), Fault(raw=head)])
    told = await _called(pair)
    pair.server.faults.clear()
    assert told.status in (429, 502)
    assert "x-split" not in told.headers


async def _called(pair: Pair) -> Told:
    [told] = answers(await sent(pair.gateway.url, request()))
    return told
