"""D15: whatever could be read in two ways, a backend sees no second request, and no header that is for one hop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.faults.backend import Engine
from tests.faults.load import at_once
from tests.faults.raw import post, statuses
from tests.faults.tally import Tally
from tests.faults.world import world

_PATH: Final = "/sessions/stranger/v1/chat/completions"


def _body(number: int) -> bytes:
    return b'{"model":"scripted","messages":[{"role":"user","content":"%d"}]}' % number


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


async def test_a_smuggled_request_reaches_no_backend(tmp_path: Path) -> None:
    """docs/promises.md D15."""
    tally = await smuggled_requests(tmp_path, len(SMUGGLED))
    assert tally.clean, tally.complaints()
