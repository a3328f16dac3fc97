"""`make operate`: a night with many backends and agents, held against its bounds; exit status 1 if one is missed.

With `--gateways 2` they share a PostgreSQL that is started for the run, and agents' calls go to either.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import uvloop

from tests.operating.outcome import Outcome, Plan
from tests.operating.report import bounds, table
from tests.operating.shift import night_shift, one_of_two, operate
from tests.postgres import Postgres

_SHOWN: Final = 12


def main() -> int:
    told = _arguments()
    # Both tell of each connection that is cut on purpose.
    for name in ("asyncio", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="rollouts-operating-") as folder, _database(told.gateways) as database:
        place = Path(folder)
        night = Plan(told.backends, told.agents, cycles=told.minutes, gateways=told.gateways, database=database)
        pair = Plan(backends=2, agents=20, cycles=3, period=20.0)
        outcomes = [
            ("All that happens to a fleet", _run(place / "night", night)),
            ("One of two backends is dead", _run(place / "pair", pair)),
        ]
    print(f"{_headline()}\n\n{table(outcomes)}")
    return 0 if all(bound.holds for _, outcome in outcomes for bound in bounds(outcome)) else 1


def _run(folder: Path, plan: Plan) -> Outcome:
    folder.mkdir()
    work = one_of_two if plan.backends == 2 else night_shift
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(operate(folder, plan, work))
    for bound in bounds(outcome):
        print(f"{'holds' if bound.holds else 'BROKEN':6} {bound.promise}: {bound.seen}", flush=True)
        for complaint in bound.complaints[:_SHOWN]:
            print(f"       {complaint}", flush=True)
    return outcome


@contextmanager
def _database(gateways: int) -> Iterator[str | None]:
    """Null: a SQLite file."""
    if gateways == 1:
        yield None
        return
    server = Postgres.make()
    try:
        yield server.database()
    finally:
        server.remove()


def _headline() -> str:
    cpus = len(os.sched_getaffinity(0))
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python {platform.python_version()}, {cpus} cores"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make operate", description=__doc__)
    parser.add_argument("--backends", type=int, default=40)
    parser.add_argument("--agents", type=int, default=300)
    parser.add_argument("--minutes", type=int, default=10, help="One cycle each.")
    parser.add_argument("--gateways", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
