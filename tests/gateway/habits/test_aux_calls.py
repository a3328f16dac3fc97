"""A harness's calls for itself are told apart from those of its task (docs/promises.md B7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from adapters.request import CanonicalRequest
from gateway.habits.aux_calls import RULES, aux_rule
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import HELLO, Running, gateway

CLAUDE = {"user-agent": "claude-cli/2.1.197 (external, cli)"}
OPENCODE_TITLE = "You are a title generator. You output ONLY a thread title. Nothing else.\n\n<task>\nGenerate …"
TITLE = (
    "Generate a concise, sentence-case title (3-7 words) that captures the main topic or goal of this coding session."
)
BILLING = "x-anthropic-billing-header: cc_version=2.1.197\n"


def request(system: object = None, *, tools: bool = False, user: str = "Fix it", **fields: Any) -> CanonicalRequest:
    said = [{"role": "system", "content": system}] if system is not None else []
    fields["messages"] = [*said, {"role": "user", "content": user}]
    raw = {name: Raw(json.dumps(value).encode()) for name, value in fields.items()}
    return CanonicalRequest("chat", raw, "m", tools=tools)


AUX: dict[str, tuple[str, str | None, CanonicalRequest]] = {
    "a look at the quota": ("claude-code-probe", "claude-code", request(user="quota", max_tokens=1)),
    "a title": ("claude-code-title", "claude-code", request(f"{BILLING}You are Claude Code.\n{TITLE}")),
    "a topic": (
        "claude-code-topic",
        "claude-code",
        request([{"type": "text", "text": "Analyze if this message indicates a new conversation topic. If …"}]),
    ),
    "a summary": (
        "claude-code-summary",
        "claude-code",
        request("Summarize this coding conversation in under 50 characters.\nCapture …"),
    ),
    "opencode's title": ("opencode-title", None, request(OPENCODE_TITLE)),
    "opencode's summary": (
        "opencode-summary",
        "opencode",
        request("Summarize what was done in this conversation. Write like a pull request description.\n\nRules:"),
    ),
}


@pytest.mark.parametrize(("rule", "harness", "asked"), AUX.values(), ids=AUX)
def test_a_harness_asks_for_itself(rule: str, harness: str | None, asked: CanonicalRequest) -> None:
    assert aux_rule(harness, {}, asked) == rule


def test_codex_says_by_a_header_that_it_writes_memories() -> None:
    headers = {"x-openai-memgen-request": "true"}
    assert aux_rule("codex", headers, request(tools=True)) == "codex-memories"
    assert aux_rule("another", headers, request()) is None


TASKS: dict[str, tuple[str | None, CanonicalRequest]] = {
    "a task": ("claude-code", request("You are Claude Code.", max_tokens=32000)),
    "a task with tools that begins alike": (None, request(OPENCODE_TITLE, tools=True)),
    "one token asked for by another": ("opencode", request(max_tokens=1)),
    "one token of a call with tools": ("claude-code", request(max_tokens=1, tools=True)),
    "the words in a task": (None, request(user=OPENCODE_TITLE)),
    "the words in mid-sentence": (None, request(f"Write what answers: {OPENCODE_TITLE}")),
    "the words of another harness": ("opencode", request(TITLE)),
    "the words far inside": (None, request("." * 5000 + "\n" + OPENCODE_TITLE)),
    "a completion": (None, CanonicalRequest("completions", {"prompt": Raw(b'"x"')}, "m")),
    "no messages that can be read": (
        None,
        CanonicalRequest("chat", {"messages": Raw(f'["{OPENCODE_TITLE[:80]}"]'.encode())}, "m"),
    ),
}


@pytest.mark.parametrize(("harness", "asked"), TASKS.values(), ids=TASKS)
def test_what_is_the_tasks_own_stays_so(harness: str | None, asked: CanonicalRequest) -> None:
    assert aux_rule(harness, {}, asked) is None


def test_rules_look_for_words_that_json_has_as_they_are() -> None:
    for rule in RULES:
        assert rule.system is None or json.dumps(rule.system) == f'"{rule.system}"'
    assert len({rule.name for rule in RULES}) == len(RULES)


async def titled(served: Running, **headers: str) -> dict[str, Any]:
    messages = [{"role": "system", "content": OPENCODE_TITLE}, {"role": "user", "content": "Fix it"}]
    return await served.trace(await served.chat(session="s1", headers=headers, messages=messages))


async def test_a_title_is_aux_and_in_no_sample(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        title = await titled(served)
        task = await served.trace(await served.chat(session="s1"))
        samples = (await served.agent.get("/api/sessions/s1/samples")).json()["items"]
    assert (title["purpose"], title["metadata"]) == ("aux", {"aux_rule": "opencode-title"})
    assert (task["purpose"], task["metadata"]) == ("train", {})
    assert [sample["trace_ids"] for sample in samples] == [[task["trace_id"]]]


async def test_a_probe_of_claude_code_is_aux_in_the_dialect_that_it_speaks(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        body = {**HELLO, "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]}
        trace = await served.trace(await served.agent.post("/sessions/s1/v1/messages", json=body, headers=CLAUDE))
    assert (trace["purpose"], trace["metadata"]["aux_rule"]) == ("aux", "claude-code-probe")


async def test_the_calls_own_word_goes_above_a_rule_and_a_rule_above_the_sessions(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.agent.post("/api/sessions", json={"session_id": "s1", "purpose": "eval"})
        told = [await titled(served), await titled(served, **{"x-rollout-purpose": "train"})]
    assert [trace["purpose"] for trace in told] == ["aux", "train"]


async def test_the_rules_can_be_switched_off(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, aux_rules=False) as served:
        assert (await titled(served))["purpose"] == "train"


async def test_aux_calls_use_up_no_budget(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.agent.post("/api/sessions", json={"session_id": "s1", "budgets": {"calls": 1}})
        statuses = [(await titled(served))["status"] for _ in range(2)]
        statuses += [(await served.trace(await served.chat(session="s1")))["status"] for _ in range(2)]
        statuses.append((await titled(served))["status"])
    assert statuses == ["ok", "ok", "ok", "rejected", "ok"]
