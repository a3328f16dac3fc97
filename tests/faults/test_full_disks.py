"""D8: the disk is full, database, spool and all. Calls are refused before any backend is asked, until there is room."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.faults.ledger import Allowed
from tests.faults.load import at_once
from tests.faults.tally import Tally
from tests.faults.world import World, world

_MEGABYTES = 2
_SESSIONS = 4


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 2 MB in memory. Skips the test where none may be mounted."""
    place = folder / "disk"
    place.mkdir()
    _mount(place, f"size={_MEGABYTES}m,mode=0700")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def _mount(place: Path, options: str) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system can't be mounted here: {mounted.stderr.strip()}")


async def disks_that_are_full(folder: Path, count: int) -> Tally:
    """So many times: what is left of the disk is filled, calls are made, and room is given back."""
    tally = Tally("D8", f"a full tmpfs of {_MEGABYTES} MB", count)
    refused = 0
    with small_disk(folder) as disk:
        async with world(folder, database=f"sqlite:///{disk / 'rollouts.db'}") as run:
            for at in range(count):
                await _calls(run, f"before-{at}")
                refused += await _while_full(run, tally, disk, at)
            await run.idle()
            await run.settled(seconds=60)
            tally.add(await run.findings(Allowed(untraced=True)))
    tally.expect(refused > 0, "no call was ever refused: this showed nothing")
    tally.shown = {"calls refused with 503": refused, "answered": sum(each.status == 200 for each in run.heard)}
    return tally


async def _while_full(run: World, tally: Tally, disk: Path, at: int) -> int:
    """How many calls were refused, each before a backend was asked, once the first one had been."""
    before = len(run.heard)
    _fill(disk / "ballast")
    refused = []
    # What was allocated before is used up first.
    async with asyncio.timeout(60):
        while len(refused) < 4:
            await _calls(run, f"full-{at}")
            refused = [heard for heard in run.heard[before:] if heard.status == 503]
    for heard in run.heard[before:]:
        tally.expect(heard.status in (200, 503), f"call {heard.number} got {heard.status} on a full disk")
    asked = {emission.number for emission in run.engines[0].emissions}
    for heard in refused:
        tally.expect(heard.headers.get("x-should-retry") == "true", f"call {heard.number} was not told to come again")
    late = [heard for heard in refused if heard.number in asked and heard.started > (refused[0].ended or 0.0)]
    tally.expect(not late, f"{len(late)} calls were refused after a backend was asked, though the disk was known full")
    (disk / "ballast").unlink()
    # Of two megabytes the spool may have so much by now that the database has no room to take it in.
    _mount(disk, f"remount,size={_MEGABYTES + 1 + at}m")
    async with asyncio.timeout(30):
        while (await run.call(f"after-{at}")).status != 200:
            await asyncio.sleep(0.1)
    return len(refused)


def _fill(path: Path) -> None:
    """All that is left, to the last byte."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(os.urandom(4096))


async def _calls(run: World, name: str) -> None:
    async def play(at: int) -> None:
        for _ in range(2):
            await run.call(f"{name}-{at}", tokens=20)

    await at_once(play, _SESSIONS)


async def test_a_full_disk_refuses_calls_before_a_backend_is_asked_and_loses_none(tmp_path: Path) -> None:
    """docs/promises.md D8."""
    tally = await disks_that_are_full(tmp_path, 1)
    assert tally.clean, tally.complaints()
