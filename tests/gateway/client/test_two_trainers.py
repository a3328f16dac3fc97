"""Two trainers share a run and one is killed before it acknowledges: each session is trained on once for good."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.client import AsyncClient, ClaimExpired
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, Running, gateway, until

GROUPS, GROUP_SIZE = 6, 3


def steps(ledger: Path) -> list[tuple[str, str, list[str]]]:
    """What a trainer has done: the step, the claim, its sessions."""
    return [tuple(json.loads(line)) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def acknowledged(ledger: Path) -> Counter[str]:
    return Counter(session for step, _, sessions in steps(ledger) if step == "acknowledged" for session in sessions)


@asynccontextmanager
async def trainer(url: str, unit: str, ledger: Path, *, hangs_at: int = 0) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.gateway.client.trainer", url, unit, str(ledger), str(hangs_at))
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def rollouts(client: AsyncClient, served: Running) -> set[str]:
    made = set()
    for group in range(GROUPS):
        for _ in range(GROUP_SIZE):
            async with client.session(run="r1", group=f"g{group}", group_size=GROUP_SIZE) as s:
                assert (await served.agent.post(f"/sessions/{s.id}{CHAT}", json=HELLO)).status_code == 200
                made.add(s.id)
    return made


@pytest.mark.parametrize(("unit", "hangs_at"), [("session", 3), ("group", 2)])
async def test_each_session_is_acknowledged_once_though_a_trainer_dies(
    unit: str, hangs_at: int, tmp_path: Path
) -> None:
    victims, survivors = tmp_path / "victim.jsonl", tmp_path / "survivor.jsonl"
    async with (
        running(ScriptedServer("vllm")) as backend,
        gateway(tmp_path, backend) as served,
        AsyncClient(served.url) as client,
    ):
        made = await rollouts(client, served)
        async with trainer(served.url, unit, victims, hangs_at=hangs_at) as victim:
            await until(lambda: sum(step == "claimed" for step, _, _ in steps(victims)) == hangs_at, 60)
            async with trainer(served.url, unit, survivors) as survivor:
                await until(lambda: acknowledged(survivors), 60)
                victim.kill()
                assert await asyncio.wait_for(survivor.wait(), 60) == 0
        undelivered = [sample.session_id async for sample in client.samples(run="r1", undelivered_to="default")]
        step, claim_id, abandoned = steps(victims)[-1]
        late = await client.read_claim(claim_id)
        with pytest.raises(ClaimExpired):
            await late.acknowledge()
    assert step == "claimed"
    assert set(abandoned) <= set(acknowledged(survivors))
    assert acknowledged(victims) + acknowledged(survivors) == Counter(made)
    assert undelivered == []
