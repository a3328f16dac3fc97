"""A session whose budget is spent ends its agent in each dialect, as the SDKs understand it (docs/promises.md C5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI, BadRequestError
from pydantic import BaseModel

from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import Running, gateway, traces_in

SENTENCE = "This session's budget of 5 calls is spent, so the model was not asked."
ASKED = [{"role": "user", "content": "Hello?"}]


async def chat(served: Running, stream: bool) -> tuple[str | None, str | None]:
    async with AsyncOpenAI(base_url=f"{served.url}/sessions/s1/v1", api_key="none") as client:
        if not stream:
            answer = await client.chat.completions.create(model="scripted", messages=ASKED)  # type: ignore[arg-type]
            assert answer.usage is not None
            return answer.choices[0].message.content, answer.choices[0].finish_reason
        async with client.chat.completions.stream(model="scripted", messages=ASKED) as events:  # type: ignore[arg-type]
            final = await events.get_final_completion()
            return final.choices[0].message.content, final.choices[0].finish_reason


async def completions(served: Running, stream: bool) -> tuple[str | None, str | None]:
    async with AsyncOpenAI(base_url=f"{served.url}/sessions/s1/v1", api_key="none") as client:
        if not stream:
            answer = await client.completions.create(model="scripted", prompt="Hello?")
            return answer.choices[0].text, answer.choices[0].finish_reason
        chunks = [
            each async for each in await client.completions.create(model="scripted", prompt="Hello?", stream=True)
        ]
        return "".join(each.choices[0].text for each in chunks), chunks[-1].choices[0].finish_reason


async def messages(served: Running, stream: bool) -> tuple[str | None, str | None]:
    async with AsyncAnthropic(base_url=f"{served.url}/sessions/s1", api_key="none") as client:
        if not stream:
            answer = await client.messages.create(model="scripted", max_tokens=50, messages=ASKED)  # type: ignore[arg-type]
        else:
            asked = client.messages.stream(model="scripted", max_tokens=50, messages=ASKED)  # type: ignore[arg-type]
            async with asked as events:
                answer = await events.get_final_message()
        return "".join(block.text for block in answer.content if block.type == "text"), answer.stop_reason


async def responses(served: Running, stream: bool) -> tuple[str | None, str | None]:
    async with AsyncOpenAI(base_url=f"{served.url}/sessions/s1/v1", api_key="none") as client:
        if not stream:
            answer = await client.responses.create(model="scripted", input="Hello?")
            return answer.output_text, answer.status
        async with client.responses.stream(model="scripted", input="Hello?") as events:
            final = await events.get_final_response()
            return final.output_text, final.status


Call = Callable[[Running, bool], Awaitable[tuple[str | None, str | None]]]
AGENTS: list[tuple[Call, str]] = [
    (chat, "stop"),
    (completions, "stop"),
    (messages, "end_turn"),
    (responses, "completed"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("call", "end"), AGENTS)
async def test_the_sixth_call_of_five_ends_its_agent_and_was_never_sent(
    tmp_path: Path, call: Call, end: str, stream: bool
) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        made = await served.agent.post("/api/sessions", json={"session_id": "s1", "budgets": {"calls": 5}})
        assert made.json()["budgets"] == {"calls": 5}
        for _ in range(5):
            assert (await call(served, stream))[0] != SENTENCE
        assert await call(served, stream) == (SENTENCE, end)
        assert len(server.calls) == 5
        samples = (await served.agent.get("/api/sessions/s1/samples")).json()
        status = (await served.agent.get("/api/admin/status")).json()
    *sent, last = await traces_in(tmp_path / "rollouts.db", session_id="s1")
    assert [trace.status for trace in sent] == ["ok"] * 5
    assert last.error is not None
    assert (last.status, last.http_status, last.error.code) == ("rejected", 200, "budget_exceeded")
    assert (last.choices, last.attempts, last.fidelity, last.error.message) == ((), (), "none", SENTENCE)
    assert last.trace_id not in str(samples)
    assert "session_incomplete" not in str(samples)
    assert status["calls"]["answered"] == status["calls"]["recorded"] == 5


async def test_the_budget_of_a_session_outlives_its_gateway(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend:
        async with gateway(tmp_path, backend) as served:
            await served.agent.post("/api/sessions", json={"session_id": "s1", "budgets": {"calls": 5}})
            for _ in range(3):
                await chat(served, False)
        async with gateway(tmp_path, backend) as served:
            for _ in range(2):
                await chat(served, False)
            assert await chat(served, False) == (SENTENCE, "stop")
    assert len(server.calls) == 5


async def test_an_agent_that_goes_on_asking_gets_an_error_that_no_sdk_repeats(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        await served.agent.post("/api/sessions", json={"session_id": "s1", "budgets": {"calls": 0}})
        for _ in range(3):
            await chat(served, False)
        with pytest.raises(BadRequestError, match="budget of 0 calls is spent"):
            await chat(served, True)
    assert [trace.http_status for trace in await traces_in(tmp_path / "rollouts.db")] == [200, 200, 200, 400]


async def test_who_asks_for_an_object_gets_a_refusal_and_not_a_sentence_to_parse(tmp_path: Path) -> None:
    class Found(BaseModel):
        number: int

    async with gateway(tmp_path) as served:
        await served.agent.post("/api/sessions", json={"session_id": "s1", "budgets": {"calls": 0}})
        async with AsyncOpenAI(base_url=f"{served.url}/sessions/s1/v1", api_key="none") as client:
            told = await client.chat.completions.parse(model="m", messages=ASKED, response_format=Found)  # type: ignore[arg-type]
    assert (told.choices[0].message.parsed, told.choices[0].message.refusal) == (None, SENTENCE.replace("5", "0"))


async def test_the_last_answer_has_no_more_tokens_than_are_left(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        budgets = {"completion_tokens": 20}
        await served.agent.post("/api/sessions", json={"session_id": "s1", "budgets": budgets})
        response = await served.chat(session="s1", max_tokens=32)
        trace = await served.trace(response)
    assert server.calls[0].json["max_tokens"] == 20
    assert trace["sampling"] == {"requested": {"max_tokens": 32}, "effective": {"max_tokens": 20}}


async def test_a_misspelled_budget_is_refused_at_the_making(tmp_path: Path) -> None:
    async with gateway(tmp_path) as served:
        answer = await served.agent.post("/api/sessions", json={"budgets": {"call": 5}})
    assert answer.status_code == 400
    assert "did you mean calls?" in answer.json()["detail"]
