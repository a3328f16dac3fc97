"""Every dialect's streams go through one relay, and are recorded whole (docs/promises.md B1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.dialects.table import ENDPOINTS
from gateway.scripted import ScriptedServer, running
from tests.gateway.dialect_calls import ASKED
from tests.gateway.harness import gateway, traces_in


@pytest.mark.parametrize("path", ENDPOINTS)
async def test_fifty_streamed_calls_of_a_dialect_are_fifty_exact_traces(tmp_path: Path, path: str) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:

        async def agent(session: int) -> list[str]:
            """Five calls one after another, as one agent makes them."""
            answers = [
                await served.agent.post(
                    f"/sessions/s{session}{path}", json={**ASKED[path], "seed": turn, "stream": True}
                )
                for turn in range(5)
            ]
            assert {answer.status_code for answer in answers} == {200}
            return [answer.headers["x-trace-id"] for answer in answers]

        told = await asyncio.gather(*map(agent, range(10)))
        given = [(await served.agent.get(f"/api/sessions/s{n}/samples")).json()["items"] for n in range(10)]
    traces = await traces_in(tmp_path / "rollouts.db")
    assert {trace.trace_id for trace in traces} == {trace_id for each in told for trace_id in each}
    assert [(trace.status, trace.fidelity) for trace in traces] == [("ok", "exact")] * 50
    for items, trace_ids in zip(given, told, strict=True):
        assert [sample["trace_ids"] for sample in items] == [[trace_id] for trace_id in trace_ids]
    sampled = list(server.calls[0].speeches[0].ids)
    for trace in traces:
        assert list(trace.choices[0].token_ids or ()) == sampled
    assert all(sum(sample["mask"]) == len(sampled) for items in given for sample in items)
