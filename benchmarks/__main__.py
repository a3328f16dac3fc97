"""`make bench`: interleaved rounds, then a table of CPU per call, ratios, and traces counted in each database."""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks import contenders, load
from benchmarks.contenders import NGINX, OURS, RLLM, Contender
from benchmarks.processes import free_port
from benchmarks.upstream import start_engine

# Enough for each that /proc's ticks of 10 ms are a small part of what is measured.
_CALLS: Final = {NGINX: {False: 4000, True: 2000}, RLLM: {False: 150, True: 80}, OURS: {False: 600, True: 300}}
_WARM_UP: Final = 64


@dataclass(frozen=True, slots=True)
class Round:
    """One contender's share of one round."""

    contender: str
    stream: bool
    calls: int
    cpu_ms: float
    seconds: float
    p50_ms: float
    p99_ms: float
    at_once: int | None
    """Traces in the database when the last answer had come."""
    in_the_end: int | None
    """And when the contender was idle."""


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # nginx's worker is another user where its master is root.
        rounds = _measure(folder, options)
    _print(rounds, options)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps([asdict(each) for each in rounds], indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--calls-a-session", type=int, default=10)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of calls a round")
    parser.add_argument("--only", action="append", choices=[NGINX, RLLM, OURS], help="repeatable")
    parser.add_argument("--rllm", type=Path, default=Path(".venv/rllm"), help="its virtual environment")
    parser.add_argument("--json", type=Path, help="where each round's figures go")
    return parser.parse_args()


def _measure(folder: Path, options: argparse.Namespace) -> list[Round]:
    wanted = options.only or [NGINX, RLLM, OURS]
    engine_port = free_port()
    engine = start_engine(folder, engine_port)
    running: list[Contender] = []
    try:
        if NGINX in wanted:
            running.append(contenders.start_nginx(folder, free_port(), engine_port))
        if RLLM in wanted:
            running.append(contenders.start_rllm(folder, free_port(), engine_port, options.rllm))
        if OURS in wanted:
            running.append(contenders.start_ours(folder, free_port(), engine_port))
        seeds = iter(range(1_000_000))
        for contender in running:
            for stream in (False, True):
                asyncio.run(load.run(_work(contender, stream, _WARM_UP, next(seeds), options)))
        return [
            _round(contender, stream, next(seeds), options)
            for _ in range(options.rounds)
            for stream in (False, True)
            for contender in running
        ]
    finally:
        for contender in running:
            contender.tree.stop()
        engine.stop()


def _work(contender: Contender, stream: bool, calls: int, seed: int, options: argparse.Namespace) -> load.Work:
    return load.Work(contender.port, stream, calls, options.concurrency, options.calls_a_session, seed)


def _round(contender: Contender, stream: bool, seed: int, options: argparse.Namespace) -> Round:
    calls = max(options.concurrency, int(_CALLS[contender.name][stream] * options.scale))
    cpu = contender.tree.cpu_when_idle()
    traces = contender.count() if contender.count else 0
    done = asyncio.run(load.run(_work(contender, stream, calls, seed, options)))
    at_once = contender.count() - traces if contender.count else None
    cpu = contender.tree.cpu_when_idle() - cpu
    in_the_end = contender.count() - traces if contender.count else None
    p50, p99 = (1000 * done.latencies[int(calls * share)] for share in (0.5, 0.99))
    return Round(contender.name, stream, calls, 1000 * cpu / calls, done.seconds, p50, p99, at_once, in_the_end)


def _print(rounds: list[Round], options: argparse.Namespace) -> None:
    console = Console(width=110)
    by_row: defaultdict[tuple[bool, str], list[Round]] = defaultdict(list)
    for each in rounds:
        by_row[each.stream, each.contender].append(each)
    table = Table(box=None, caption="traces: of all calls, in the database at the last answer and when idle")
    for column in (
        "answer",
        "contender",
        "CPU ms/call",
        "min",
        "max",
        "of rllm's",
        "calls/s",
        "calls",
        "traces",
        "idle",
    ):
        table.add_column(column, justify="left" if column in ("answer", "contender") else "right")
    for (stream, name), row in sorted(by_row.items()):
        cpu = statistics.median(each.cpu_ms for each in row)
        peer = by_row.get((stream, RLLM))
        table.add_row(
            "stream" if stream else "whole",
            name,
            f"{cpu:.2f}",
            f"{min(each.cpu_ms for each in row):.2f}",
            f"{max(each.cpu_ms for each in row):.2f}",
            f"1/{statistics.median(each.cpu_ms for each in peer) / cpu:.1f}" if peer else "",
            f"{sum(each.calls for each in row) / sum(each.seconds for each in row):.0f}",
            str(sum(each.calls for each in row)),
            _total([each.at_once for each in row]),
            _total([each.in_the_end for each in row]),
        )
    console.print(f"{options.rounds} rounds, {options.concurrency} calls at a time; CPU is user + system, until idle")
    console.print(table)


def _total(counts: Sequence[int | None]) -> str:
    return "–" if None in counts else str(sum(count for count in counts if count is not None))


if __name__ == "__main__":
    main()
