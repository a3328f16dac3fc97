"""White space before a whole answer, for what cuts silent connections (docs/promises.md F13)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from anthropic import AsyncAnthropic
from openai import APIConnectionError, AsyncOpenAI

from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import gateway, traces_in

SLOW: dict[str, Any] = {"keepalive_interval": 0.1, "keepalive_whole": True}


async def test_a_whole_answer_that_takes_long_begins_with_white_space(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, **SLOW) as served:
        await served.chat()
        server.faults.append(Fault(delay=0.5))
        response = await served.chat()
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers.keys() >= {"x-trace-id", "x-session-id", "x-request-id"}
    assert response.text.startswith("   ")
    assert response.json()["choices"][0]["finish_reason"] == "stop"


async def test_an_answer_in_time_and_a_refusal_in_time_are_as_ever(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, keepalive_whole=True) as served:
        answer = await served.chat()
        server.faults.append(Fault(status=400, body=b'{"message":"no","type":"x","code":400}'))
        refusal = await served.chat()
    assert answer.text.startswith("{")
    assert answer.headers["content-length"] == str(len(answer.content))
    assert (refusal.status_code, refusal.json()["error"]["message"]) == (400, "no")


async def test_the_sdks_read_it(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", fault=Fault(delay=0.4))
    async with running(server) as backend, gateway(tmp_path, backend, **SLOW) as served:
        asked: Any = {"model": "scripted", "messages": [{"role": "user", "content": "Hello?"}], "max_tokens": 32}
        async with AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none") as openai:
            assert (await openai.chat.completions.create(**asked)).choices[0].message.content
        async with AsyncAnthropic(base_url=served.url, api_key="none") as anthropic:
            assert (await anthropic.messages.create(**asked)).content


async def test_a_failure_after_white_space_is_a_connection_that_breaks_off(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    failing = Fault(delay=0.4, status=500, body=b'{"message":"no","type":"x","code":500}')
    async with running(server) as backend, gateway(tmp_path, backend, **SLOW) as served:
        await served.chat()
        server.faults.append(failing)
        with pytest.raises(httpx.RemoteProtocolError):
            await served.chat()
        server.faults.append(failing)
        async with AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0) as client:
            with pytest.raises((APIConnectionError, httpx.RemoteProtocolError)):
                await client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "Hello?"}])
    failed = [trace for trace in await traces_in(tmp_path / "rollouts.db") if trace.status == "backend_error"]
    assert [trace.error and trace.error.message for trace in failed] == ["no", "no"]


async def test_without_the_setting_nothing_comes_before_the_answer(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, keepalive_interval=0.1) as served:
        await served.chat()
        server.faults.append(Fault(delay=0.4))
        assert (await served.chat()).text.startswith("{")
