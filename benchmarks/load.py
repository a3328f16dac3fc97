"""The load client: calls at a fixed concurrency over kept connections, each answer checked to its end."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks import canned


@dataclass(frozen=True, slots=True)
class Load:
    """What one contender got in one round."""

    calls: int
    seconds: float
    latencies: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """Whose answers are asked for, how and how often."""

    port: int
    stream: bool
    calls: int
    concurrency: int
    calls_a_session: int
    seed: int


async def run(work: Work) -> Load:
    """All calls. Raises AssertionError where an answer is not the canned one to its end."""
    rng = random.Random(work.seed)
    # An agent makes its calls one after the other, so a session stays on one connection.
    rollouts = iter([_rollout(work, rng, first) for first in range(0, work.calls, work.calls_a_session)])
    started = time.perf_counter()
    connections = [_connection(work, rollouts) for _ in range(work.concurrency)]
    latencies = itertools.chain.from_iterable(await asyncio.gather(*connections))
    return Load(work.calls, time.perf_counter() - started, tuple(sorted(latencies)))


def _rollout(work: Work, rng: random.Random, first: int) -> list[bytes]:
    """The requests of one session."""
    return [
        request_of(work.port, f"bench-{work.seed}-{first}", canned.request(rng, stream=work.stream))
        for _ in range(min(work.calls_a_session, work.calls - first))
    ]


def request_of(port: int, session: str, body: bytes) -> bytes:
    """A call of a session, as it goes out."""
    head = (
        f"POST /sessions/{session}/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Content-Type: application/json\r\nAuthorization: Bearer unused\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _connection(work: Work, rollouts: Iterator[list[bytes]]) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", work.port, limit=1 << 22)
    latencies = []
    for request in itertools.chain.from_iterable(rollouts):
        started = time.perf_counter()
        writer.write(request)
        body = await answer_of(reader)
        latencies.append(time.perf_counter() - started)
        if work.stream:
            assert body.rstrip().endswith(b"data: [DONE]"), body[-300:]
            assert body.count(b"data: ") > canned.SAMPLED_TOKENS, body[:300]
        else:
            assert b'"finish_reason"' in body, body[:300]
            assert body.rstrip().endswith(b"}"), body[-300:]
    writer.close()
    await writer.wait_closed()
    return latencies


async def answer_of(reader: asyncio.StreamReader) -> bytes:
    """The body of one answer, whole or in chunks."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    assert head.startswith(b"http/1.1 200"), head + await reader.read(500)
    if b"transfer-encoding: chunked" not in head:
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        return await reader.readexactly(int(length))
    parts = []
    while size := int(await reader.readline(), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readline()
    return b"".join(parts)
