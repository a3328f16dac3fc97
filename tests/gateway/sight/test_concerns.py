"""What a human asks first: is anything wrong, and what."""

from __future__ import annotations

import io
from asyncio import to_thread
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from gateway.commands.remote import Remote
from gateway.commands.screen import Screen
from gateway.commands.status import StatusCommand
from gateway.exchange import Counters
from gateway.scripted import ScriptedServer, running
from gateway.sight.concerns import concerns
from storage.records import GatewayHeard, StoreCounts
from tests.gateway.harness import gateway

WELL = StoreCounts(
    queued=0,
    queued_bytes=0,
    begun=9,
    finished=9,
    committed=9,
    refused=0,
    dropped_late=0,
    commits=9,
    last_commit_ms=1.0,
    oldest_queued_ms=None,
    writer_alive=True,
    writer_restarts=0,
    unable=None,
    spool_depth=0,
    spool_bytes=0,
    spool_oldest_s=None,
    spool_refused=0,
    spool_unable=None,
)
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def told(store: StoreCounts = WELL, *, counters: Counters | None = None, spool_elsewhere: int = 0) -> list[str]:
    others = [GatewayHeard("g2", NOW, spool_elsewhere, 12.0 if spool_elsewhere else None)]
    return [each for each in concerns(store, counters or Counters(9, 9), [], others) if "no backend" not in each]


def test_a_gateway_that_is_well_has_none() -> None:
    assert told() == []


def test_whatever_endangers_records_is_said() -> None:
    assert told(counters=Counters(answered=9, recorded=8)) == [
        "1 answers were given whose trace was not recorded first: this is a defect"
    ]
    away = replace(WELL, unable="connection refused", spool_depth=3, spool_bytes=99, spool_oldest_s=61.0)
    assert told(away) == [
        "the database can't be written: connection refused",
        "3 traces are in the spool and not in the database, the oldest for 61 s",
    ]
    assert told(replace(WELL, writer_alive=False)) == ["the writer has ended: nothing goes into the database"]
    assert told(replace(WELL, oldest_queued_ms=31_000.0)) == ["the writer is 31 s behind"]
    assert told(replace(WELL, spool_unable="No space left")) == ["the spool can't be written: No space left"]
    assert told(spool_elsewhere=2) == ["the gateway g2 has 2 traces in its spool, the oldest for 12 s"]


async def shown(url: str) -> list[str]:
    file = io.StringIO()
    command = StatusCommand(Remote(url, None), Screen(Console(file=file), Console(file=io.StringIO())))
    await to_thread(command.show)
    return file.getvalue().splitlines()


async def test_the_command_says_what_is_wrong_first_and_then_how_it_does(tmp_path: Path) -> None:
    async with (
        running(ScriptedServer("vllm")) as url,
        gateway(tmp_path, f"{url},engine=vllm,version=0.32.0,name=a") as served,
    ):
        await served.chat(stream=True)
        lines = await shown(served.url)
        assert lines[0] == "all is well"
        assert lines[2].startswith("calls    0 in flight, 1 answered, 1 recorded")
        assert lines[5].split("\t")[:5] == ["a", "up", "serving", "0", "1"]
        paused = await served.agent.post("/api/admin/pause", json={"owner": "trainer-1", "wait": 0})
        assert paused.status_code < 300, paused.text
        lines = await shown(served.url)
    assert lines[0].startswith("! all backends paused since ")
    assert lines[0].endswith(" by trainer-1; 0 calls wait here")
    assert any("local" in line and "pause" in line for line in lines[-2:])
