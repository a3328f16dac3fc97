"""What harnesses tell of themselves is kept beside our own ids, and attributes nothing (docs/promises.md B6)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.habits.harness import harness_of, with_metadata
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import gateway

CLAUDE = "claude-cli/2.1.197 (external, cli)"

TOLD: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "Claude Code": (
        {"user-agent": CLAUDE, "x-claude-code-session-id": "a-1"},
        {"name": "claude-code", "version": "2.1.197", "session_id": "a-1"},
    ),
    "a sub-agent of Claude Code": (
        {
            "user-agent": CLAUDE,
            "x-claude-code-session-id": "a-1",
            "x-claude-code-agent-id": "b-2",
            "x-claude-code-parent-agent-id": "b-1",
        },
        {"name": "claude-code", "version": "2.1.197", "session_id": "a-1", "agent_id": "b-2", "parent_id": "b-1"},
    ),
    "Claude Code behind another client": (
        {"user-agent": "node", "x-claude-code-session-id": "a-1"},
        {"name": "claude-code", "session_id": "a-1"},
    ),
    "Codex": (
        {"user-agent": "codex_cli_rs/0.50.0 (Debian 13; x86_64)", "session_id": "c-1", "conversation_id": "c-0"},
        {"name": "codex", "version": "0.50.0", "session_id": "c-1"},
    ),
    "a sub-agent of Codex": (
        {
            "user-agent": "codex_exec/0.150.0",
            "session-id": "c-1",
            "thread-id": "d-2",
            "x-codex-parent-thread-id": "d-1",
            "x-openai-subagent": "collab_spawn",
        },
        {
            "name": "codex",
            "version": "0.150.0",
            "session_id": "c-1",
            "agent_id": "d-2",
            "parent_id": "d-1",
            "kind": "collab_spawn",
        },
    ),
    "a sub-agent of opencode": (
        {"user-agent": "opencode/1.2.3", "x-session-id": "ses_b", "x-session-affinity": "ses_b"}
        | {"x-parent-session-id": "ses_a"},
        {"name": "opencode", "version": "1.2.3", "session_id": "ses_b", "parent_id": "ses_a"},
    ),
    "Qwen Code": (
        {"user-agent": "QwenCode/0.15.10 (linux; x64)"},
        {"name": "qwen-code", "version": "0.15.10"},
    ),
    "an agent that says itself which one it is": (
        {"user-agent": "OpenAI/Python 3.54.0", "x-rollout-agent-id": "reviewer", "x-rollout-parent-agent-id": "coder"},
        {"agent_id": "reviewer", "parent_id": "coder"},
    ),
    "one that says more than its harness": (
        {"user-agent": CLAUDE, "x-claude-code-session-id": "a-1", "x-claude-code-agent-id": "b-2"}
        | {"x-rollout-agent-id": "reviewer"},
        {"name": "claude-code", "version": "2.1.197", "session_id": "a-1", "agent_id": "reviewer"},
    ),
    "a harness that nobody knows": (
        {"user-agent": "my-agent/1", "x-session-id": "s-9", "x-parent-session-id": "s-8"},
        {"session_id": "s-9", "parent_id": "s-8"},
    ),
    "an SDK": ({"user-agent": "OpenAI/Python 3.54.0", "x-stainless-lang": "python"}, {}),
    "nothing": ({}, {}),
}


@pytest.mark.parametrize(("headers", "told"), TOLD.values(), ids=TOLD)
def test_what_the_headers_tell(headers: dict[str, str], told: dict[str, str]) -> None:
    assert harness_of(headers) == told


def test_what_is_sent_is_kept_within_bounds() -> None:
    told = harness_of({"user-agent": "opencode/" + "1" * 999, "x-session-id": "s" * 999})
    assert {name: len(value) for name, value in told.items()} == {"name": 8, "version": 256, "session_id": 256}


@pytest.mark.parametrize(
    ("metadata", "session_id"),
    [
        ({"user_id": json.dumps({"device_id": "d", "account_uuid": "", "session_id": "54c1eb09"})}, "54c1eb09"),
        ({"user_id": "user_0a1b_account__session_57a121ec-f78c-48c3"}, "57a121ec-f78c-48c3"),
        ({"user_id": "somebody"}, None),
        ({"user_id": '{"session_id": 7}'}, None),
        ({"user_id": None}, None),
        ({}, None),
        (None, None),
        ("text", None),
    ],
)
def test_an_older_claude_code_names_its_session_in_the_body(metadata: object, session_id: str | None) -> None:
    told = {"name": "claude-code", "version": "2.0.1"}
    body = json.dumps({"model": "m", "metadata": metadata}).encode()
    assert with_metadata(told, body) == told | ({} if session_id is None else {"session_id": session_id})


@pytest.mark.parametrize("told", [{}, {"name": "codex"}, {"name": "claude-code", "session_id": "a-1"}])
def test_no_other_body_is_read_for_it(told: dict[str, str]) -> None:
    assert with_metadata(told, b"\xff no JSON") is told
    assert with_metadata({"name": "claude-code"}, b"\xff no JSON") == {"name": "claude-code"}


async def test_a_trace_has_both_and_the_call_is_of_the_session_that_we_know(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    headers, told = TOLD["a sub-agent of opencode"]
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        in_path = await served.trace(await served.chat(session="s1", headers=headers))
        alone = await served.trace(await served.chat(headers=headers))
        other = await served.trace(await served.chat(session="s2", headers=headers))
    assert [trace["harness"] for trace in (in_path, alone, other)] == [told] * 3
    assert (in_path["session_id"], other["session_id"]) == ("s1", "s2")
    assert alone["session_id"] == alone["trace_id"]
