"""D13: requests of 100 MB are refused, those of 20 MB are served, and streams go on beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.faults.beside import good_calls
from tests.faults.load import at_once
from tests.faults.raw import post, statuses
from tests.faults.tally import Tally
from tests.faults.world import world

_PATH: Final = "/sessions/stranger/v1/chat/completions"
_MEGABYTE: Final = 1 << 20


async def huge_bodies(folder: Path, count: int) -> Tally:
    """Requests over the limit, and large ones below it, beside streams."""
    tally = Tally("D13", "requests of 100 MB, and of 20 MB, beside streams", count)
    async with world(folder) as run, good_calls(run, tally) as gaps:
        padding = "x" * (20 * _MEGABYTE)

        async def play(at: int) -> None:
            if at % 2:
                heard = await run.call(f"large-{at}", stream=False, user=padding)
                tally.expect(heard.status == 200, f"call {heard.number} of 20 MB got {heard.status}")
                return
            pieces = [post(_PATH, b"", length=[b"content-length: 104857600"]), *([b"x" * _MEGABYTE] * 100)]
            told = await statuses(run.gateway.port, *pieces)
            tally.expect(told == [413], f"100 MB were answered with {told}")

        await at_once(play, count, most=2)
        longest = max(gaps, default=0.0)
        tally.expect(longest < 10.0, f"streams stood still for {longest:.1f} s")
        tally.shown = {"longest gap in a stream, s": f"{longest:.2f}"}
    return tally


async def test_streams_go_on_beside_huge_requests(tmp_path: Path) -> None:
    """docs/promises.md D13."""
    tally = await huge_bodies(tmp_path, 2)
    assert tally.clean, tally.complaints()
