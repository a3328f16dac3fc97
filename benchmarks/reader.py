"""What reading one answer costs, in CPU time, without sockets or a database: `python -m benchmarks.reader`.

The machine is never alone: compare trees by running them one after the other several times, and take the smallest.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from adapters.answer import AnswerReader, Outcome
from adapters.engines import adapter_for
from adapters.plan import Plan
from benchmarks import canned
from gateway.dialects.chat import ChatDialect

_ROUNDS: Final = 40
_CALLS: Final = 5
_PIECE: Final = 16 * 1024
"""What the connection to a backend gives at most at once."""


def plan(*, stream: bool) -> Plan:
    """As the gateway makes it for vLLM."""
    adapter = adapter_for("vllm")
    request = ChatDialect().read(canned.request(random.Random(1), stream=stream))
    return adapter.plan(request, adapter.server("0.32.0", models=[canned.MODEL]), "exact")


def read(plan: Plan, pieces: Sequence[bytes], *, typed: bool) -> Outcome:
    """A stream that comes in these pieces."""
    reader = AnswerReader(plan, typed=typed)
    for piece in pieces:
        reader.feed(piece)
    return reader.finish()


def cases() -> dict[str, Callable[[], Outcome]]:
    """What is measured, by name."""
    streamed, whole = plan(stream=True), plan(stream=False)
    stream, body = canned.streamed_answer(), canned.whole_answer()
    large = [stream[start : start + _PIECE] for start in range(0, len(stream), _PIECE)]
    events = [event + b"\n\n" for event in stream.split(b"\n\n") if event]
    return {
        "stream in 16 KiB pieces": lambda: read(streamed, large, typed=False),
        "stream, an event a piece": lambda: read(streamed, events, typed=False),
        "stream in 16 KiB pieces, with deltas": lambda: read(streamed, large, typed=True),
        "stream, an event a piece, with deltas": lambda: read(streamed, events, typed=True),
        "whole answer": lambda: AnswerReader(whole).whole(body),
    }


def microseconds(call: Callable[[], object]) -> float:
    """The CPU time of one call, the smallest of many rounds."""
    rounds = []
    for _ in range(_ROUNDS):
        start = time.process_time()
        for _ in range(_CALLS):
            call()
        rounds.append(time.process_time() - start)
    return min(rounds) / _CALLS * 1e6


def main() -> None:
    for name, call in cases().items():
        assert call().verdict.fidelity == "exact"
        print(f"{name:40} {microseconds(call):7.0f} µs")


if __name__ == "__main__":
    main()
