"""Fields of a Responses request whose answer has a place of their own: logprobs, and text in a format."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from adapters.scripts.replies import fixed
from adapters.scripts.speech import Called, say
from gateway.scripted import ScriptedServer
from tests.gateway.openai_client import ASKED, SERVERS, served, streamed


class Answer(BaseModel):
    city: str


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("engine", "version", "variant"), [SERVERS[0], SERVERS[2], SERVERS[-1]])
async def test_logprobs_that_are_asked_for_stand_with_the_text(
    tmp_path: Path, engine: str, version: str | None, variant: str | None, stream: bool
) -> None:
    server = ScriptedServer(engine, version=version, variant=variant, reply=fixed(say("Two and two.")))
    asked = {**ASKED, "include": ["message.output_text.logprobs"], "top_logprobs": 2, "tools": []}
    async with served(tmp_path, server) as (client, _):
        answer = (await streamed(client, **asked))[0] if stream else await client.responses.create(**asked)
    (item,) = answer.output
    assert item.type == "message"
    part = item.content[0]
    assert part.type == "output_text"
    told = part.logprobs or []
    assert "".join(token.token for token in told).startswith("Two and two.")
    assert all(token.logprob <= 0 and isinstance(token.bytes, list) for token in told)


async def test_a_text_format_comes_back_parsed(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", reply=fixed(say('{"city": "Paris"}')))
    async with served(tmp_path, server) as (client, _):
        parsed = await client.responses.parse(model="scripted", input="Where?", text_format=Answer)
    assert parsed.output_parsed == Answer(city="Paris")
    sent = server.calls[-1].json["response_format"]
    assert (sent["type"], sent["json_schema"]["name"], sent["json_schema"]["strict"]) == ("json_schema", "Answer", True)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_session_without_budget_left_ends_its_agent_and_breaks_no_sdk(tmp_path: Path, stream: bool) -> None:
    server = ScriptedServer("vllm", reply=fixed(say(calls=[Called("get_weather", '{"city": "Paris"}')])))
    async with served(tmp_path, server) as (client, through):
        await through.agent.post("/api/sessions", json={"session_id": "s1", "budgets": {"calls": 1}})
        await client.responses.create(**ASKED)
        last = (await streamed(client, **ASKED))[0] if stream else await client.responses.create(**ASKED)
        parsed = await client.responses.parse(model="scripted", input="Where?", text_format=Answer)
    assert (last.status, [item.type for item in last.output]) == ("completed", ["message"])
    assert "budget of 1 calls is spent" in last.output_text
    assert parsed.output_parsed is None
    (item,) = parsed.output
    assert item.type == "message"
    assert item.content[0].type == "refusal"
    assert "budget of 1 calls is spent" in item.content[0].refusal


async def test_a_refusal_in_a_stream_has_its_own_events(tmp_path: Path) -> None:
    async with served(tmp_path, ScriptedServer("vllm")) as (client, through):
        await through.agent.post("/api/sessions", json={"session_id": "s1", "budgets": {"calls": 0}})
        async with client.responses.stream(model="scripted", input="Where?", text_format=Answer) as stream:
            names = [event.type async for event in stream]
    assert names[2:-1] == [
        "response.output_item.added",
        "response.content_part.added",
        "response.refusal.delta",
        "response.refusal.done",
        "response.content_part.done",
        "response.output_item.done",
    ]
