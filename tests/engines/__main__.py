"""`python -m tests.engines [--only ENGINE] [--json FILE]`: the whole matrix, with 1 as exit code if a cell is wrong."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tokenizers import Tokenizer

from tests.engines.cases import CASES
from tests.engines.cells import Cell
from tests.engines.gateway_process import serving
from tests.engines.laboratory import MODEL, prepare, running
from tests.engines.matrix import Bench, run
from tests.engines.overview import overview
from tests.engines.setups import SETUPS, Setup
from tests.engines.table import markdown


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    wanted = options.only or [setup.name for setup in SETUPS]
    results: dict[str, list[Cell]] = {}
    named: dict[str, list[Cell]] = {}
    for setup in SETUPS:
        if setup.name in wanted or (setup.engine in wanted and options.url is None):
            title, cells = _measure(setup, options.url, options.case)
            results[title] = named[setup.name] = cells
            print(markdown(title, cells), end="\n\n", flush=True)
    if len(named) > 1:
        print(overview(named))
    if options.json:
        told = {title: [asdict(cell) for cell in cells] for title, cells in results.items()}
        options.json.write_text(json.dumps({"date": _today(), "cells": told}, indent=1, ensure_ascii=False) + "\n")
    return int(any(cell.word == "WRONG" for cells in results.values() for cell in cells))


def _measure(setup: Setup, url: str | None, only: str | None) -> tuple[str, list[Cell]]:
    version = prepare(setup)
    title = f"{setup.title.format(version=version)}, {_today()}"
    if url is not None:
        return title, _cells(setup, version, url, only)
    with running(setup) as started:
        cells = _cells(setup, version, started, only)
        if only is None:
            _verify(started)
    return title, cells


def _cells(setup: Setup, version: str, url: str, only: str | None) -> list[Cell]:
    cases = [case for case in CASES if only is None or only in f"{case.endpoint} {case.name}"]
    if not setup.calls_tools:
        cases = [case for case in cases if "tools" not in case.body]
    cells: list[Cell] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, serving(url, Path(folder)) as api:
        bench = Bench(setup, version, url, api, Tokenizer.from_file(str(MODEL / "tokenizer.json")), setup.name)
        for cell in run(bench, cases):
            cells.append(cell)
            _progress(cell)
        if (count := api.count(setup.name)) != len(cells):
            raise SystemExit(f"{len(cells)} calls were made, and the run has {count} traces")
    print(f"# {len(cells)} cells in {time.monotonic() - begun:.0f} s", file=sys.stderr)
    return cells


def _progress(cell: Cell) -> None:
    way = f"streamed {cell.capture}" if cell.streamed else "whole"
    print(f"{cell.word:8} {cell.endpoint} · {cell.case} · {way} · {cell.plan}", file=sys.stderr)
    for reason in cell.reasons:
        print(f"         {reason}", file=sys.stderr, flush=True)


def _verify(url: str) -> None:
    """What `verify` says of the engine itself, which prints its own table."""
    command = [sys.executable, "-m", "gateway", "verify", url, "--tokenizer", str(MODEL)]
    subprocess.run(command, check=False)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.engines", description=__doc__)
    names = sorted({setup.name for setup in SETUPS} | {setup.engine for setup in SETUPS})
    parser.add_argument("--only", action="append", choices=names, help="one engine or one set-up; repeatable")
    parser.add_argument("--case", help="only the rows whose endpoint and name contain this")
    parser.add_argument("--url", help="an engine that already runs, with --only; it is not stopped")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every cell there")
    return parser


if __name__ == "__main__":
    sys.exit(main())
