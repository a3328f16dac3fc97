"""A harness whose system prompt is another one in each call, as Claude Code's is (docs/promises.md C6)."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import gateway, traces_in

RULES = "You are a coding agent. " + " ".join(f"Rule {number}: look before you write." for number in range(200))
CALLS = 4


def _asked(messages: list[Any], call: int) -> dict[str, Any]:
    """The first line changes after some characters; all that follows it is the same."""
    first = f"x-anthropic-billing-header: cc_version=2.1.0; cc_entrypoint=cli; cch={call:05x};"
    system = [{"type": "text", "text": first}, {"type": "text", "text": RULES}]
    return {"model": "scripted", "max_tokens": 50, "system": system, "messages": messages}


async def test_calls_whose_system_prompt_changes_are_exact_and_none_is_anothers_continuation(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    messages: list[Any] = [{"role": "user", "content": "Hello?"}]
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        for call in range(CALLS):
            answer = await served.agent.post("/sessions/s1/v1/messages", json=_asked(messages, call))
            messages += [{"role": "assistant", "content": answer.json()["content"]}]
            messages += [{"role": "user", "content": "Go on."}]
        drift = (await served.agent.get("/api/sessions/s1/drift")).json()
        samples = (await served.agent.get("/api/sessions/s1/samples")).json()["items"]
    traces = await traces_in(tmp_path / "rollouts.db", session_id="s1")
    assert [(trace.fidelity, trace.parent_trace_id) for trace in traces] == [("exact", None)] * CALLS
    assert drift["counts"]["causes"] == {"system_prompt_changed": CALLS - 1}
    # Each row is one call, trained for what it sampled, and nothing of an earlier answer twice.
    assert [sample["trace_ids"] for sample in samples] == [[trace.trace_id] for trace in traces]
    for sample, sent in zip(samples, server.calls, strict=True):
        assert sent.asked is not None
        prompt, sampled = list(sent.asked.prompts[0]), list(sent.speeches[0].ids)
        assert sample["token_ids"] == prompt + sampled
        assert sum(sample["mask"]) == len(sampled)
        assert sample["mask"][: len(prompt)] == [0] * len(prompt)


async def test_a_trace_whose_system_prompt_changed_is_stored_as_what_is_new_in_it(tmp_path: Path) -> None:
    messages: list[Any] = [{"role": "user", "content": "Hello?"}]
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        for call in range(CALLS):
            answer = await served.agent.post("/sessions/s1/v1/messages", json=_asked(messages, call))
            messages += [{"role": "assistant", "content": answer.json()["content"]}]
            messages += [{"role": "user", "content": "Go on."}]
    with sqlite3.connect(tmp_path / "rollouts.db") as db:
        rows = db.execute("select base_trace_id, length(text) + length(ids) from traces order by trace_id").fetchall()
    (no_base, whole), *later = rows
    assert no_base is None
    for base, size in later:
        assert base is not None
        assert size < whole / 4
