"""`/api/sessions/{id}/agents`, and the samples of a session whose harness has sub-agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import gateway

MAIN = {"user-agent": "opencode/1.18.33", "x-session-id": "ses_a"}
SUB = {"user-agent": "opencode/1.18.33", "x-session-id": "ses_b", "x-parent-session-id": "ses_a"}


def asked(words: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": words}]}


async def test_a_sessions_agents_are_told_apart_where_their_harness_names_them(tmp_path: Path) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        calls = [
            await served.chat(session="s", headers=MAIN, **asked("Write it.")),
            await served.chat(session="s", headers=SUB, **asked("Review it.")),
            await served.chat(session="s", headers={**MAIN, "x-rollout-purpose": "aux"}, **asked("A title?")),
            await served.chat(session="s", **asked("Who am I?")),
        ]
        told = (await served.agent.get("/api/sessions/s/agents")).json()
        rows = (await served.agent.get("/api/sessions/s/samples")).json()["items"]
        main = (await served.agent.get("/api/sessions/s/samples", params={"agents": "main"})).json()["items"]
        drift = (await served.agent.get("/api/sessions/s/drift")).json()["calls"]
        missing = await served.agent.get("/api/sessions/t/agents")
        wrong = await served.agent.get("/api/sessions/s/samples", params={"agents": "sub"})
    ids = [call.headers["x-trace-id"] for call in calls]
    assert told["complete"] is True
    assert [(each["agent_id"], each["parent_agent_id"], each["aux_calls"]) for each in told["items"]] == [
        ("ses_a", None, 1),
        ("ses_b", "ses_a", 0),
        (None, None, 0),
    ]
    assert [each["trace_ids"] for each in told["items"]] == [[ids[0], ids[2]], [ids[1]], [ids[3]]]
    assert told["items"][1]["completion_tokens"] > 0
    assert [(row["agent_id"], row["parent_agent_id"]) for row in rows] == [
        ("ses_a", None),
        ("ses_b", "ses_a"),
        (None, None),
    ]
    assert [row["agent_id"] for row in main] == ["ses_a", None]
    assert [call["agent_id"] for call in drift] == ["ses_a", "ses_b", None]
    assert (missing.status_code, wrong.status_code) == (404, 400)
