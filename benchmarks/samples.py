"""What building a session's samples costs, in CPU time: as it grows in tokens, and in turns.

    python -m benchmarks.samples [--rounds N]

Beside it what finding the parents takes in another way: a running digest over each prompt (`storage.parents`, which
the writer uses as calls come in one by one). The smallest of several rounds: the machine is never alone.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from adapters.schema import Choice, RecordedRequest, Session, Trace
from adapters.token_ids import TokenIds
from storage.parents import Ends, ends_of
from storage.samples.build import samples_of

TURNS: Final = 200
TOKENS: Final = 32_000
SAMPLED: Final = 0.5
"""Of a session's tokens."""
_COLUMNS: Final = ("session", "turns", "tokens", "prompt ids", "samples", "CPU ms", "µs/1k tokens", "digests, ms")
_NOW: Final = datetime(2026, 11, 21, tzinfo=UTC)
SESSION: Final = Session("session", _NOW)


def trace(turn: int, prompt: TokenIds, sampled: list[TokenIds], rng: random.Random) -> Trace:
    return Trace(
        trace_id=f"trace-{turn}",
        session_id=SESSION.session_id,
        dialect="chat",
        status="ok",
        started_at=_NOW,
        request=RecordedRequest(None),
        turn=turn,
        weight_version="1",
        prompt_token_ids=prompt,
        choices=tuple(
            Choice(index, ids, logprobs=tuple(-rng.random() for _ in ids), finish_reason="stop")
            for index, ids in enumerate(sampled)
        ),
        fidelity="exact",
        logprobs_fidelity="exact",
    )


def session(tokens: int, turns: int, *, choices: int = 1, agents: int = 1) -> list[Trace]:
    """Calls in turns of one or more agents, each of which goes on from its own last answer, shuffled."""
    rng = random.Random(tokens + turns)
    ids = np.random.default_rng(turns)
    a_call = tokens // turns
    own = round(a_call * SAMPLED)
    texts = [TokenIds()] * agents
    traces = []
    for turn in range(turns):
        drawn = [TokenIds(ids.integers(0, 150_000, own).tolist()) for _ in range(choices)]
        prompt = texts[turn % agents] + TokenIds(ids.integers(0, 150_000, a_call - own).tolist())
        traces.append(trace(turn, prompt, drawn, rng))
        texts[turn % agents] = prompt + drawn[0]
    rng.shuffle(traces)
    return traces


def by_digest(traces: list[Trace]) -> Callable[[], None]:
    in_order = sorted(traces, key=lambda trace: trace.turn or 0)

    def find() -> None:
        ends = Ends()
        for each in in_order:
            ends.parent_of(each.prompt_token_ids)
            for end in ends_of(each):
                ends.add(end)

    return find


def milliseconds(work: Callable[[], object], rounds: int) -> float:
    spent = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return 1e3 * min(spent)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.samples", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    table = Table(box=None, title="Building a session's samples", title_justify="left")
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "session" else "right")
    for tokens in (4_000, 8_000, 16_000, 32_000, 64_000):
        table.add_row("grows", *measured(session(tokens, TURNS), tokens, rounds))
    for turns in (25, 50, 100, 400, 800):
        table.add_row("in other turns", *measured(session(TOKENS, turns), TOKENS, rounds))
    table.add_row("8 agents in turns", *measured(session(TOKENS, TURNS, agents=8), TOKENS, rounds))
    table.add_row("4 choices a call", *measured(session(TOKENS, TURNS, choices=4), TOKENS, rounds))
    Console(width=120).print(table)


def measured(traces: list[Trace], tokens: int, rounds: int) -> tuple[str, ...]:
    samples = samples_of(SESSION, traces)
    cpu = milliseconds(lambda: samples_of(SESSION, traces), rounds)
    return (
        str(len(traces)),
        f"{tokens:,}",
        f"{sum(len(each.prompt_token_ids or ()) for each in traces):,}",
        str(len(samples)),
        f"{cpu:.1f}",
        f"{1e6 * cpu / tokens:.0f}",
        f"{milliseconds(by_digest(traces), rounds):.1f}",
    )


if __name__ == "__main__":
    main()
