"""How much memory callers can take of the gateway, in a process of its own (docs/promises.md D6, D13).

Agents that don't read slow their backends down, and bodies have one bound together: resident bytes are bounded by
what those allow, not by what is sent. `CALLERS=2000 make test ARGS=tests/gateway/edge/test_memory.py` is the long form.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from gateway.scripted import ScriptedServer, running
from tests.faults.processes import Gateway
from tests.gateway.edge.wire import BODY, connected, request

CALLERS = int(os.environ.get("CALLERS", "60"))
MIB = 1 << 20

# An answer that nobody reads: what both sides of it may hold (256 KiB and a read, 64 KiB and a write), and what the
# kernel took towards its agent (4 MiB by default), for that is kept for the trace.
OF_A_STREAM = 8 * MIB
READERS = max(20, CALLERS // 20)
STREAM_BYTES = 50 * MIB


@asynccontextmanager
async def serving(folder: Path, backend: str, **settings: object) -> AsyncIterator[Gateway]:
    environ = {f"ROLLOUT_GATEWAY_{name.upper()}": str(value) for name, value in settings.items()}
    arguments = ("--backend", f"{backend},engine=vllm,version=0.32.0", "--database", f"sqlite:///{folder}/rollouts.db")
    gateway = Gateway(arguments, environ, folder)
    await gateway.start()
    try:
        yield gateway
    finally:
        gateway.kill()


async def _most_resident(gateway: Gateway, doing: asyncio.Future[object]) -> int:
    most = 0
    while not doing.done():
        most = max(most, gateway.resident())
        await asyncio.wait([doing], timeout=0.02)
    return most


class Endless:
    """A backend that streams as fast as it is read, and counts what it got rid of."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.open = 0

    async def at_rest(self, streams: int) -> None:
        """So many have begun, and for a second nothing more was got rid of."""
        quiet, last = 0, -1
        while quiet < 20:
            await asyncio.sleep(0.05)
            now = sum(self.sent)
            quiet = quiet + 1 if len(self.sent) == streams and now == last else 0
            last = now

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET "):
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            writer.close()
            return
        at = len(self.sent)
        self.sent.append(0)
        self.open += 1
        text = "x" * 60_000
        event = b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % text.encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        try:
            while self.sent[at] < STREAM_BYTES:
                writer.write(event)
                await writer.drain()
                self.sent[at] += len(event)
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            writer.close()


async def test_agents_that_do_not_read_slow_their_backends_down(tmp_path: Path) -> None:
    endless = Endless()
    server = await asyncio.start_server(endless, "127.0.0.1", 0)
    backend = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, serving(tmp_path / "gateway", backend) as gateway:
        before = gateway.resident()
        with ExitStack() as agents:
            for _ in range(READERS):
                agent = agents.enter_context(socket.socket())
                agent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
                agent.connect(("127.0.0.1", gateway.port))
                agent.sendall(request(body=BODY[:-1] + b', "stream": true}'))
            await endless.at_rest(READERS)
            assert gateway.resident() - before < READERS * OF_A_STREAM
            # The kernel's buffers take some megabytes of each; the rest was never sent.
            assert max(endless.sent) < STREAM_BYTES / 2
        async with asyncio.timeout(10):
            while endless.open:
                await asyncio.sleep(0.02)


async def test_all_callers_together_take_no_more_than_the_bodies_bound(tmp_path: Path) -> None:
    """Each sends as much as a body may be; nobody's call is lost, for who is refused may come back."""
    server = ScriptedServer("vllm")
    bound, of_each = 32 * MIB, 8 * MIB
    async with running(server) as backend:
        settings = {"max_bodies_bytes": bound, "max_body_bytes": of_each}
        async with serving(tmp_path / "gateway", backend, **settings) as gateway:
            await _announce(gateway, of_each // 16)
            before = gateway.resident()
            calls = asyncio.gather(*(_announce(gateway, of_each) for _ in range(CALLERS)))
            most = await _most_resident(gateway, calls)
            statuses = await calls
    assert set(statuses) <= {400, 408, 429}
    assert 429 in statuses
    # The bound itself, what is read from each socket and not yet counted, and copies of those few that are parsed.
    assert most - before < 3 * bound + CALLERS * MIB // 2


async def _announce(gateway: Gateway, size: int) -> int:
    """Sends so much of what is no JSON in the end, so that none of it costs a backend anything."""
    async with connected(gateway.url) as (reader, writer):
        head = request(f"Content-Length: {size}", body=b"")
        reading = asyncio.create_task(reader.readuntil(b"\r\n"))
        try:
            writer.write(head)
            for _ in range(size // 65_536):
                if reading.done():
                    break
                writer.write(b"x" * 65_536)
                await writer.drain()
        except ConnectionError:
            pass
        return int((await reading).split()[1])
