"""A tool's large result goes through in every dialect, up to a limit that stands in one setting
(docs/promises.md C4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.scripted import ScriptedServer, running
from tests.gateway.dialect_calls import ASKED, error_of
from tests.gateway.harness import gateway

RESULT = " umbrella" * (5_000_000 // 9)
ARGUMENTS = '{"path": "log"}'


def _chat(result: str) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "cat", "arguments": ARGUMENTS}}
    answer = {"role": "assistant", "content": None, "tool_calls": [call]}
    question = {"role": "user", "content": "Read the log."}
    return {"messages": [question, answer, {"role": "tool", "tool_call_id": "c1", "content": result}]}


def _completions(result: str) -> dict[str, Any]:
    return {"prompt": "Read the log." + result}


def _messages(result: str) -> dict[str, Any]:
    call = {"type": "tool_use", "id": "c1", "name": "cat", "input": {"path": "log"}}
    told = {"type": "tool_result", "tool_use_id": "c1", "content": result}
    question = {"role": "user", "content": "Read the log."}
    return {"messages": [question, {"role": "assistant", "content": [call]}, {"role": "user", "content": [told]}]}


def _responses(result: str) -> dict[str, Any]:
    call = {"type": "function_call", "call_id": "c1", "name": "cat", "arguments": ARGUMENTS}
    told = {"type": "function_call_output", "call_id": "c1", "output": result}
    return {"input": [{"role": "user", "content": "Read the log."}, call, told]}


TOLD: dict[str, Callable[[str], dict[str, Any]]] = {
    "/v1/chat/completions": _chat,
    "/v1/completions": _completions,
    "/v1/messages": _messages,
    "/v1/responses": _responses,
    "/v1/messages/count_tokens": _messages,
}


async def test_a_tools_result_of_5_mb_goes_through_in_every_dialect(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        for path, told in TOLD.items():
            response = await served.agent.post(path, json={**ASKED[path], **told(RESULT)})
            assert response.status_code == 200, (path, response.text[:300])
        traces = (await served.agent.get("/api/traces")).json()["items"]
    assert all(RESULT.encode() in call.body for call in server.calls)
    assert [trace["fidelity"] for trace in traces] == ["exact"] * 4


@pytest.mark.parametrize(("path", "told"), TOLD.items())
async def test_over_the_one_limit_each_dialect_has_its_own_413(
    tmp_path: Path, path: str, told: Callable[[str], dict[str, Any]]
) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, max_body_bytes=2000) as served:
        assert (await served.agent.post(path, json={**ASKED[path], **told("x" * 1000)})).status_code == 200
        asked = len(server.requests)
        response = await served.agent.post(path, json={**ASKED[path], **told("x" * 2000)})
    kind, sentence = error_of(path, response.json())
    assert (response.status_code, len(server.requests)) == (413, asked)
    assert kind == ("request_too_large" if path.startswith("/v1/messages") else "invalid_request_error")
    assert "max_body_bytes" in sentence
