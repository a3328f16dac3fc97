"""`make faults`: every scenario in its long form, as a table; exit status 1 if one is not clean.

`COUNT` is how often each does its fault, `ONLY` picks rows (`D9`) or scenarios (`kills`), with commas between. Most
wait most of the time, so `LANES` are played side by side, each scenario in a process of its own, the longest first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.faults.scenarios import SCENARIOS, Scenario
from tests.faults.tally import Tally, markdown


def main() -> int:
    told = _arguments()
    # It warns of each write to a gateway that was just killed.
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    wanted = [name.lower() for name in told.only.replace(",", " ").split()]
    chosen = [each for each in SCENARIOS if not wanted or each.matches(wanted)]
    if not chosen:
        print(f"No scenario is called {told.only!r}: {', '.join(each.name for each in SCENARIOS)}", file=sys.stderr)
        return 2
    started = time.monotonic()
    played = _side_by_side(chosen, told.count, told.lanes) if len(chosen) > 1 else _alone(chosen[0], told.count)
    tallies: dict[Scenario, Tally] = {}
    for scenario, tally in played:
        tallies[scenario] = tally
        print(
            f"{tally.row:4} {'clean' if tally.clean else 'NOT CLEAN':9} {tally.seconds:6.1f} s  {tally.name}",
            flush=True,
        )
        for complaint in tally.complaints():
            print(f"     {complaint}", flush=True)
        in_order = [tallies[each] for each in chosen if each in tallies]
        _write(told.json, told.count, in_order)
    minutes = (time.monotonic() - started) / 60
    print(f"\n{_headline(told.count)}, {minutes:.0f} minutes in all\n\n{markdown(in_order)}")
    return 0 if all(tally.clean for tally in in_order) else 1


def _alone(scenario: Scenario, count: int) -> Iterator[tuple[Scenario, Tally]]:
    yield scenario, _run(scenario, count)


def _side_by_side(chosen: Sequence[Scenario], count: int, lanes: int) -> Iterator[tuple[Scenario, Tally]]:
    """As they end, each by a program like this one."""
    with ThreadPoolExecutor(lanes) as pool:
        ending = {
            pool.submit(_in_its_own_process, scenario, count): scenario
            for scenario in sorted(chosen, key=lambda each: each.takes, reverse=True)
        }
        for ended in as_completed(ending):
            yield ending[ended], ended.result()


def _in_its_own_process(scenario: Scenario, count: int) -> Tally:
    with tempfile.TemporaryDirectory(prefix="rollouts-tally-") as folder:
        told = Path(folder) / "tally.json"
        command = [sys.executable, "-m", "tests.faults", "--count", str(count), "--only", f"={scenario.name}"]
        ran = subprocess.run([*command, "--json", str(told)], capture_output=True, text=True, check=False)
        if not told.exists():
            return Tally(scenario.row, scenario.name, broken=[f"not played to its end: {ran.stderr[-2000:]}"])
        (tally,) = json.loads(told.read_text())["scenarios"]
    return Tally.of(tally)


def _run(scenario: Scenario, count: int) -> Tally:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rollouts-faults-") as folder:
        try:
            tally = asyncio.run(scenario.play(Path(folder), count))
        except pytest.skip.Exception as exc:
            tally = Tally(scenario.row, scenario.name, broken=[f"not played: {exc}"])
        except Exception:
            # A scenario that can't be played to its end is no pass, and the others are played all the same.
            tally = Tally(scenario.row, scenario.name, broken=[traceback.format_exc()[-2000:]])
    tally.seconds = time.monotonic() - started
    return tally


def _headline(count: int) -> str:
    cpus = len(os.sched_getaffinity(0))
    return f"{datetime.now(UTC):%Y-%m-%d}, COUNT={count}, Python {platform.python_version()}, {cpus} cores"


def _write(path: Path | None, count: int, tallies: Sequence[Tally]) -> None:
    if path is not None:
        told = {"run": _headline(count), "scenarios": [tally.json() for tally in tallies]}
        path.write_text(json.dumps(told, indent=1) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", default="")
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--json", type=Path, help="Written anew after each scenario.")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
