"""Hours of a gateway in minutes: whether its memory, its descriptors or its tasks grow under streams that go on.

    python -m benchmarks.soak --minutes 30 --warm-up 10

Streams of 1,000 chunks, each of some seconds, so many at a time; a session is ten calls. All three are read at rest:
before the first call, after the warm-up, every five minutes and at the end. The warm-up lasts until what the writer
remembers of sessions is full too, which is bounded by bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import canned
from benchmarks.load import answer_of, request_of
from benchmarks.processes import Tree, free_port

CHUNKS: Final = 1000
_CALLS_A_SESSION: Final = 10
_FILLS: Final = 6000
"""Streams."""
_REST: Final = 5.0
"""Seconds, for what is done behind the last answer."""


@dataclass(frozen=True, slots=True)
class Standing:
    memory: int
    descriptors: int
    tasks: int

    def __str__(self) -> str:
        return f"{self.memory / 2**20:6.1f} MiB, {self.descriptors} descriptors, {self.tasks} tasks"


class Gateway:
    """A `serve` that tells its tasks."""

    def __init__(self, folder: Path, engine_port: int) -> None:
        self.port = free_port()
        self._tasks = folder / "tasks"
        self.tree = Tree(
            [
                *(sys.executable, "-m", "benchmarks.counted", str(self._tasks), "serve", "--port", str(self.port)),
                *("--database", f"sqlite:///{folder / 'rollouts.db'}", "--log-level", "warning"),
                *("--backend", f"http://127.0.0.1:{engine_port}"),
            ],
            folder / "gateway.log",
        )
        self.tree.wait_for(self.port)

    def at_rest(self) -> Standing:
        time.sleep(_REST)
        self._tasks.unlink(missing_ok=True)
        os.kill(self.tree.pid, signal.SIGUSR1)
        while not self._tasks.exists():
            time.sleep(0.05)
        descriptors = len(list(Path(f"/proc/{self.tree.pid}/fd").iterdir()))
        return Standing(self.tree.memory(), descriptors, int(self._tasks.read_text()))


async def _load(port: int, minutes: float, streams: int, name: str) -> int:
    """How many streams were read to their end."""
    until = time.monotonic() + 60 * minutes
    return sum(await asyncio.gather(*(_agent(port, until, f"{name}-{number}") for number in range(streams))))


async def _agent(port: int, until: float, name: str) -> int:
    rng = random.Random(name)
    calls = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    while time.monotonic() < until:
        session = f"{name}-{calls // _CALLS_A_SESSION}"
        writer.write(request_of(port, session, canned.request(rng, stream=True)))
        body = await answer_of(reader)
        assert body.rstrip().endswith(b"data: [DONE]"), body[-300:]
        assert body.count(b"data: ") > CHUNKS, body[:300]
        calls += 1
    writer.close()
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--warm-up", type=float, default=10)
    parser.add_argument("--streams", type=int, default=20, help="at a time")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each stream")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        port = free_port()
        pace = ["--seconds", str(asked.seconds), "--tokens", str(CHUNKS), "--writes", "50"]
        engine = Tree([sys.executable, "-m", "benchmarks.engine", str(port), *pace], folder / "engine.log")
        engine.wait_for(port)
        gateway = Gateway(folder, port)
        try:
            print(f"at the start      {gateway.at_rest()}", flush=True)
            streams = asyncio.run(_load(gateway.port, asked.warm_up, asked.streams, "warm-up"))
            while asked.warm_up and streams < _FILLS:
                streams += asyncio.run(_load(gateway.port, 1, asked.streams, f"warm-up-{streams}"))
            warm = gateway.at_rest()
            print(f"after the warm-up {warm}, {streams} streams", flush=True)
            for number in range(part := max(1, round(asked.minutes / 5))):
                streams = asyncio.run(_load(gateway.port, asked.minutes / part, asked.streams, f"soak-{number}"))
                now = gateway.at_rest()
                print(f"after a part      {now}, {streams} streams", flush=True)
            print(f"memory grew by {now.memory / warm.memory - 1:.1%} in {asked.minutes:g} minutes")
        finally:
            gateway.tree.stop()
            engine.stop()


if __name__ == "__main__":
    main()
