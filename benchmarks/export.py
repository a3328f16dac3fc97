"""What an export takes of the gateway: its peak of memory, and time, while it streams everything that it has.

    python -m benchmarks.export [--traces 100000] [--turns 1] [--database FILE]

A real `serve` process answers `/api/export`; its peak is VmHWM of /proc: every byte that was ever resident, libraries
included. Each kind and format has a process of its own. What arrives is read back and counted.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from adapters.schema import Choice, Session, Trace, Usage
from adapters.token_ids import TokenIds
from benchmarks.processes import Tree, free_port
from benchmarks.storage import Corpus, body, trace
from storage.store import Store

IDS: Final = 4_000
SAMPLED: Final = 1_000
"""Of a trace's ids."""
_AT_ONCE: Final = 64
_EXPORTS: Final = (
    ("one session", "jsonl", "limit=1"),
    ("samples", "parquet", ""),
    ("traces", "parquet", ""),
    ("samples", "arrow", ""),
    ("samples", "jsonl", ""),
    ("traces", "jsonl", ""),
)


@dataclass(frozen=True, slots=True)
class Measured:
    kind: str
    file_format: str
    rows: int
    file_bytes: int
    seconds: float
    cpu_s: float
    peak_bytes: int


def sessions(count: int, turns: int) -> Iterator[list[Trace]]:
    """A session's last trace has 4,000 ids; those before it begin like it."""
    corpus = Corpus.read()
    logprobs = tuple(-(at % 997) / 256 for at in range(SAMPLED))  # Float32, as engines' are.
    for number in range(count // turns):
        _, prompt = corpus.take(IDS - turns * SAMPLED)
        session = []
        for _ in range(turns):
            given, sampled = corpus.take(SAMPLED)
            one = trace(f"session-{number:06}", body([{"role": "user", "content": given}]), prompt, given, sampled[:1])
            choice = Choice(0, TokenIds(sampled), logprobs=logprobs, text=given, finish_reason="stop")
            usage = Usage(len(prompt), SAMPLED, len(prompt) + SAMPLED)
            started = datetime.now(UTC)
            session.append(replace(one, choices=(choice,), usage=usage, started_at=started, turn=None))
            prompt = [*prompt, *sampled]
        yield session


async def fill(database: Path, count: int, turns: int) -> None:
    store = Store.open(database, gateway_id="bench")

    async def record(traces: list[Trace]) -> None:
        for one in traces:
            store.begin(one, Session(one.session_id, one.started_at, run_id="run-1"))
            await store.finish(one, timeout=60)
        await store.finish_session(traces[0].session_id)

    waiting: list[list[Trace]] = []
    for session in sessions(count, turns):
        waiting.append(session)
        if len(waiting) == _AT_ONCE:
            await asyncio.gather(*map(record, waiting))
            waiting = []
    await asyncio.gather(*map(record, waiting))
    await store.close()


def measure(database: Path, folder: Path, kind: str, file_format: str, filters: str) -> Measured:
    port = free_port()
    tree = Tree(
        [
            *(sys.executable, "-m", "gateway", "serve", "--port", str(port), "--database", f"sqlite:///{database}"),
            *("--log-level", "warning"),
        ],
        folder / "serve.log",
    )
    tree.wait_for(port)
    file = folder / f"export.{file_format}"
    of = "samples" if kind == "one session" else kind
    started, cpu = time.perf_counter(), tree.cpu()
    with (
        file.open("wb") as out,
        httpx.stream(
            "GET",
            f"http://127.0.0.1:{port}/api/export?of={of}&format={file_format}&{filters}",
            timeout=120,
            trust_env=False,
        ) as answer,
    ):
        answer.raise_for_status()
        for chunk in answer.iter_raw():
            out.write(chunk)
    seconds, cpu = time.perf_counter() - started, tree.cpu() - cpu
    peak = tree.peak_memory()
    tree.stop()
    size = file.stat().st_size
    rows = _rows(file, file_format)
    file.unlink()
    return Measured(kind, file_format, rows, size, seconds, cpu, peak)


def _rows(file: Path, file_format: str) -> int:
    if file_format == "parquet":
        return int(pq.read_metadata(file).num_rows)
    if file_format == "arrow":
        with pa.OSFile(str(file)) as source:
            return sum(batch.num_rows for batch in pa.ipc.open_stream(source))
    with file.open("rb") as lines:
        return sum(1 for _ in lines)


def _print(found: list[Measured], options: argparse.Namespace, database: Path) -> None:
    title = f"{options.traces:,} traces of {IDS:,} ids, {options.turns} a session; a database of "
    table = Table(box=None, title=f"{title}{database.stat().st_size / 1e6:,.0f} MB", title_justify="left")
    for column in ("export", "format", "rows", "file, MB", "seconds", "CPU s", "ms/row", "peak, MB"):
        table.add_column(column, justify="left" if column in ("export", "format") else "right")
    for each in found:
        table.add_row(
            each.kind,
            each.file_format,
            f"{each.rows:,}",
            f"{each.file_bytes / 1e6:,.1f}",
            f"{each.seconds:.1f}",
            f"{each.cpu_s:.1f}",
            f"{1000 * each.cpu_s / max(each.rows, 1):.2f}",
            f"{each.peak_bytes / 1e6:.0f}",
        )
    Console(width=110).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.export", description=__doc__)
    parser.add_argument("--traces", type=int, default=5_000)
    parser.add_argument("--turns", type=int, default=1, help="of a session; 1 to 4")
    parser.add_argument("--database", type=Path, help="kept, and used again where it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-export-") as name:
        folder = Path(name)
        database = options.database or folder / "rollouts.db"
        if not database.exists():
            asyncio.run(fill(database, options.traces, options.turns))
        found = [measure(database, folder, *export) for export in _EXPORTS]
        _print(found, options, database)


if __name__ == "__main__":
    main()
