"""Many calls at a time through the gateway, against the same directly (docs/promises.md F9).

    python -m benchmarks.concurrency [--calls 600] [--seconds 3] [--rounds 3]

Every call has a connection of its own, and all begin at once. The upstream answers each after so many seconds, so what
is more than that is waiting. Rounds take turns; the ratio is of the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks import canned
from benchmarks.contenders import start_ours
from benchmarks.load import answer_of
from benchmarks.processes import Tree, free_port
from gateway.commands.descriptors import raise_descriptor_limit

_PATH: Final = "/v1/chat/completions"


async def _call(port: int, request: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    writer.write(request)
    body = await answer_of(reader)
    assert body.rstrip().endswith(b"}"), body[-300:]
    writer.close()


async def _together(port: int, calls: int, path: str) -> float:
    """Seconds until the last of them has its answer."""
    rng = random.Random(calls)
    requests = []
    for number in range(calls):
        body = canned.request(rng, stream=False)
        head = f"POST {path.replace('*', str(number))} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n"
        requests.append(head.encode() + body)
    started = time.perf_counter()
    await asyncio.gather(*(_call(port, request) for request in requests))
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    raise_descriptor_limit()
    with tempfile.TemporaryDirectory() as folder:
        engine_port = free_port()
        engine = Tree(
            [sys.executable, "-m", "benchmarks.engine", str(engine_port), "--seconds", str(asked.seconds)],
            Path(folder) / "engine.log",
        )
        engine.wait_for(engine_port)
        ours = start_ours(Path(folder), free_port(), engine_port)
        assert ours.count is not None
        try:
            directly, through = [], []
            for number in range(asked.rounds):
                directly.append(asyncio.run(_together(engine_port, asked.calls, "/v1/chat/completions")))
                through.append(
                    asyncio.run(_together(ours.port, asked.calls, f"/sessions/{number}-*/v1/chat/completions"))
                )
                print(f"round {number + 1}: directly {directly[-1]:.2f} s, through the gateway {through[-1]:.2f} s")
            ratio = statistics.median(through) / statistics.median(directly)
            print(f"{asked.calls} calls of {asked.seconds:g} s: {ratio:.2f} times as long; {ours.count()} traces")
        finally:
            ours.tree.stop()
            engine.stop()


if __name__ == "__main__":
    main()
