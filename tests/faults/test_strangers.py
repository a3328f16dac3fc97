"""D5, D13, D15 and D16: connections that trickle, huge bodies, smuggled requests, bombs; others do not notice."""

from __future__ import annotations

import asyncio
import gzip
import random
import time
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from gateway.scripted import Fault
from tests.faults.backend import Engine, Order
from tests.faults.load import at_once
from tests.faults.raw import post, statuses
from tests.faults.records import Heard
from tests.faults.said import said
from tests.faults.tally import Tally
from tests.faults.world import World, world

_PATH: Final = "/sessions/stranger/v1/chat/completions"
_MEGABYTE: Final = 1 << 20
_BOMB: Final = gzip.compress(bytes(256 * _MEGABYTE), 9)
"""A quarter of a megabyte, and a thousand times that when it is opened."""


def _body(number: int) -> bytes:
    return b'{"model":"scripted","messages":[{"role":"user","content":"%d"}]}' % number


async def slow_strangers(folder: Path, count: int) -> Tally:
    """So many connections that send a byte now and then, and never a request."""
    tally = Tally("D5", "connections that trickle", count)
    async with world(folder, settings={"receive_timeout": 2}) as run:
        async with _good_calls(run, tally):
            strangers = [asyncio.create_task(_trickle(run.gateway.port)) for _ in range(count)]
            lived = await asyncio.gather(*strangers)
        tally.expect(max(lived) < 20, f"a connection that sent no request lived for {max(lived):.0f} s")
        tally.add(await run.findings())
        tally.shown = {"calls served meanwhile": len(run.heard), "the longest that one lived, s": f"{max(lived):.1f}"}
    return tally


async def _trickle(port: int) -> float:
    """Seconds until the gateway had enough."""
    started = time.monotonic()
    try:
        _, writer = reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return 0.0
    try:
        with suppress(OSError):
            for byte in b"POST /v1/chat/completions HTTP/1.1\r\nx-slow: " + b"z" * 60:
                writer.write(bytes([byte]))
                if reader.at_eof() or writer.is_closing():
                    break
                await asyncio.sleep(0.25)
    finally:
        writer.transport.abort()
    return time.monotonic() - started


async def huge_bodies(folder: Path, count: int) -> Tally:
    """Requests over the limit, and large ones below it, beside streams."""
    tally = Tally("D13", "requests of 100 MB, and of 20 MB, beside streams", count)
    async with world(folder) as run, _good_calls(run, tally) as gaps:
        padding = "x" * (20 * _MEGABYTE)

        async def play(at: int) -> None:
            if at % 2:
                heard = await run.call(f"large-{at}", stream=False, user=padding)
                tally.expect(heard.status == 200, f"call {heard.number} of 20 MB got {heard.status}")
                return
            pieces = [post(_PATH, b"", length=[b"content-length: 104857600"]), *([b"x" * _MEGABYTE] * 100)]
            told = await statuses(run.gateway.port, *pieces)
            tally.expect(told == [413], f"100 MB were answered with {told}")

        await at_once(play, count, most=2)
        longest = max(gaps, default=0.0)
        tally.expect(longest < 10.0, f"streams stood still for {longest:.1f} s")
        tally.shown = {"longest gap in a stream, s": f"{longest:.2f}"}
    return tally


# What a request looks like that two servers read in two ways; the hidden one is the second.
SMUGGLED: Final[dict[str, Callable[[bytes, bytes], bytes]]] = {
    "a length and chunks": lambda body, hidden: post(_PATH, b"0\r\n\r\n" + hidden, b"transfer-encoding: chunked"),
    "chunks and a length": lambda body, hidden: post(
        _PATH, b"0\r\n\r\n" + hidden, length=[b"transfer-encoding: chunked", b"content-length: 4"]
    ),
    "two lengths": lambda body, hidden: post(
        _PATH, body + hidden, length=[b"content-length: %d" % len(body), b"content-length: %d" % len(body + hidden)]
    ),
    "a list of lengths": lambda body, hidden: post(
        _PATH, body + hidden, length=[b"content-length: %d, %d" % (len(body), len(body + hidden))]
    ),
    "a length with a sign": lambda body, hidden: post(_PATH, body + hidden, length=[b"content-length: +5"]),
    "a negative length": lambda body, hidden: post(_PATH, body + hidden, length=[b"content-length: -1"]),
    "a length in hexadecimal": lambda body, hidden: post(_PATH, body + hidden, length=[b"content-length: 0x40"]),
    "a length after a space": lambda body, hidden: post(_PATH, body + hidden, length=[b"content-length : 5"]),
    "chunks behind identity": lambda body, hidden: post(_PATH, hidden, b"transfer-encoding: identity, chunked"),
    "chunks before identity": lambda body, hidden: post(
        _PATH, b"0\r\n\r\n" + hidden, length=[b"transfer-encoding: chunked, identity"]
    ),
    "chunks of another name": lambda body, hidden: post(
        _PATH, b"0\r\n\r\n" + hidden, length=[b"transfer-encoding: xchunked"]
    ),
    "chunks behind a tab": lambda body, hidden: post(
        _PATH, b"0\r\n\r\n" + hidden, b"transfer-encoding:\x0bchunked", length=[b"content-length: 5"]
    ),
    "a folded coding": lambda body, hidden: post(
        _PATH, b"0\r\n\r\n" + hidden, b"transfer-encoding:\r\n chunked", length=[b"content-length: 5"]
    ),
    "a chunk beyond every number": lambda body, hidden: post(
        _PATH, b"fffffffffffffffff\r\n" + hidden, length=[b"transfer-encoding: chunked"]
    ),
    "a chunk's size with a tail": lambda body, hidden: post(
        _PATH, b"5;\n\r\nhello\r\n0\r\n\r\n" + hidden, length=[b"transfer-encoding: chunked"]
    ),
    "lines that end in LF": lambda body, hidden: post(_PATH, hidden).replace(b"\r\n", b"\n", 2),
    "a line that ends in CR": lambda body, hidden: post(_PATH, body, b"x: y\rtransfer-encoding: chunked"),
    "a NUL in a header": lambda body, hidden: post(_PATH, body, b"x: \0"),
    "a request in the target": lambda body, hidden: post(f"{_PATH} HTTP/1.1\r\nhost: x\r\n\r\nPOST {_PATH}", body),
    "a request behind the body": lambda body, hidden: post(_PATH, body) + hidden,
}


async def smuggled_requests(folder: Path, count: int) -> Tally:
    """However it is written, a backend sees as many requests as the stranger was answered, and no header of theirs."""
    tally = Tally("D15", "smuggled requests, and headers for one hop", count)
    engine = Engine(keep_requests=True)
    names = [*SMUGGLED]
    async with world(folder, engines=[engine]) as run:

        async def play(at: int) -> None:
            # Numbers that no other call has: outer and hidden.
            outer, hidden = 100_000 + 2 * at, 100_001 + 2 * at
            secret = post("/update_weights", _body(hidden), b"x-smuggled: 1", b"connection: x-smuggled")
            name = names[at % len(names)]
            told = await statuses(run.gateway.port, SMUGGLED[name](_body(outer), secret), waits=3.0)
            asked = [e.number for e in engine.emissions if e.number in (outer, hidden)]
            good = sum(status == 200 for status in told)
            tally.expect(
                hidden not in asked and len(asked) <= good <= 1, f"{name}: {asked} were asked, {told} answered"
            )
            tally.expect(bool(told), f"{name}: no answer")
            await run.call(f"beside-{at}")

        await at_once(play, count, most=4)
        await run.idle()
        for request in engine.requests:
            tally.expect(request.header("x-smuggled") is None, "a header for one hop came to a backend")
            tally.expect(request.header("transfer-encoding") is None, "a coding came to a backend")
            tally.expect(request.route in _ENGINE_PATHS, f"a backend was asked for {request.route}")
        rows = [row for row in await run.rows() if row.session_id != "stranger"]
        tally.add(run.ledger(rows).findings())
        tally.shown = {"ways": len(names)}
    return tally


_ENGINE_PATHS: Final = frozenset(
    {
        "/v1/chat/completions",
        "/v1/models",
        "/version",
        "/health",
        "/live",
        "/model_info",
        "/server_info",
        "/openapi.json",
    }
)


async def bombs(folder: Path, count: int) -> Tally:
    """Compressed bodies that nobody asked for, from strangers and from backends."""
    tally = Tally("D16", "compressed bombs, inbound and from a backend", count)
    async with world(folder) as run:
        await run.call("warm")
        before = run.gateway.resident()
        bad: list[Heard] = []

        async def play(at: int) -> None:
            chance = random.Random(at)
            coding, data = chance.choice((("gzip", _BOMB), ("deflate", zlib.compress(bytes(_MEGABYTE))), ("br", b"?")))
            if at % 2:
                told = await statuses(run.gateway.port, post(_PATH, data, b"content-encoding: " + coding.encode()))
                tally.expect(told == [415], f"a request in {coding} got {told}")
                return
            fault = Fault(headers={"content-encoding": coding}, body=data)
            bad.append(await run.call(f"session-{at}", order=Order(fault, sound=False), stream=chance.random() < 0.5))

        await at_once(play, count, most=4)
        await run.idle()
        for heard in bad:
            tally.expect(not said(heard).finished, f"call {heard.number} has an answer of a compressed body")
        grown = (run.gateway.resident() - before) // _MEGABYTE
        tally.expect(grown < 128, f"memory grew by {grown} MB")
        rows = [row for row in await run.rows() if row.session_id != "stranger"]
        tally.add(run.ledger(rows).findings())
        tally.shown = {"memory grew by, MB": grown}
    return tally


@asynccontextmanager
async def _good_calls(run: World, tally: Tally) -> AsyncIterator[list[float]]:
    """Streams beside whatever happens; all are to be whole. Filled with the longest gap in each."""
    ended = asyncio.Event()
    gaps: list[float] = []

    async def play(at: int) -> None:
        while not ended.is_set():
            started = time.monotonic()
            heard = await run.call(f"good-{at}", fault=Fault(pause=0.02))
            gaps.append(time.monotonic() - started)
            tally.expect(heard.status == 200 and heard.end == "whole", f"good call {heard.number} got {heard.status}")
            if len(run.agent(f"good-{at}").messages) > 20:
                run.leave(f"good-{at}")

    calls = [asyncio.create_task(play(at)) for at in range(4)]
    yield gaps
    ended.set()
    await asyncio.gather(*calls)
    await run.idle()


async def test_good_calls_are_served_beside_connections_that_trickle(tmp_path: Path) -> None:
    """docs/promises.md D5."""
    tally = await slow_strangers(tmp_path, 100)
    assert tally.clean, tally.complaints()


async def test_streams_go_on_beside_huge_requests(tmp_path: Path) -> None:
    """docs/promises.md D13."""
    tally = await huge_bodies(tmp_path, 2)
    assert tally.clean, tally.complaints()


async def test_a_smuggled_request_reaches_no_backend(tmp_path: Path) -> None:
    """docs/promises.md D15."""
    tally = await smuggled_requests(tmp_path, len(SMUGGLED))
    assert tally.clean, tally.complaints()


async def test_a_compressed_bomb_is_not_opened(tmp_path: Path) -> None:
    """docs/promises.md D16."""
    tally = await bombs(tmp_path, 8)
    assert tally.clean, tally.complaints()
