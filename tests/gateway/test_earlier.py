"""A request that names an earlier answer goes on from it, at whatever gateway of the database."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import openai
import pytest

from adapters.scripts.replies import by_turn, fixed
from adapters.scripts.speech import Called, say
from gateway.earlier import parsed
from gateway.exchange import LARGE_BODY
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import gateway, traces_in
from tests.gateway.openai_client import TOOL, client_of, served, streamed

MODEL: dict[str, Any] = {"model": "scripted", "tools": [TOOL]}


def _server() -> ScriptedServer:
    call = Called("get_weather", '{"city": "Paris"}')
    return ScriptedServer("vllm", reply=by_turn(say(reasoning="Hm.", calls=[call]), say("Rain."), say("Bye.")))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_chain_goes_on_at_another_gateway_each_time(tmp_path: Path, stream: bool) -> None:
    server = _server()
    asks: list[Any] = ["Weather?", None, "Thanks."]
    results: list[Any] = []
    previous: str | None = None
    async with running(server) as backend:
        for said in asks:
            async with gateway(tmp_path, backend) as through, client_of(through) as client:
                asked = {**MODEL, "instructions": f"Say {said}.", "input": said or results}
                if previous is not None:
                    asked["previous_response_id"] = previous
                answer = (await streamed(client, **asked))[0] if stream else await client.responses.create(**asked)
            previous = answer.id
            calls = [item for item in answer.output if item.type == "function_call"]
            results = [{"type": "function_call_output", "call_id": c.call_id, "output": "rain"} for c in calls]
    assert answer.output_text == "Bye."
    assert answer.previous_response_id is not None
    sent = server.calls[-1].json["messages"]
    call_id = sent[2]["tool_calls"][0]["id"]
    assert [(message["role"], message["content"]) for message in sent] == [
        ("system", "Say Thanks.."),
        ("user", "Weather?"),
        ("assistant", None),
        ("tool", "rain"),
        ("assistant", "Rain."),
        ("user", "Thanks."),
    ]
    assert sent[3]["tool_call_id"] == call_id
    assert sent[2]["reasoning_content"] == "Hm."
    assert [trace.fidelity for trace in await traces_in(tmp_path / "rollouts.db")] == ["exact"] * 3


async def test_what_is_not_of_the_session_is_not_found(tmp_path: Path) -> None:
    async with served(tmp_path, _server()) as (client, through):
        first = await client.responses.create(**MODEL, input="Hi.", store=False)
        again = await client.responses.create(**MODEL, input="Hi.", previous_response_id=first.id)
        chat = await through.chat(session="s1")
        of_chat = "resp_" + chat.headers["x-trace-id"].replace("-", "")
        for session, named in [("s2", first.id), (None, first.id), ("s1", of_chat), ("s1", "resp_1"), ("s1", again.id)]:
            if named == again.id:
                await through.agent.delete("/api/sessions/s1")
                session = "s3"
            async with client_of(through, session) as other:
                with pytest.raises(openai.BadRequestError, match=f"'{named}' not found") as caught:
                    await other.responses.create(**MODEL, input="Hi.", previous_response_id=named)
            assert caught.value.code == "previous_response_not_found"
            assert caught.value.param == "previous_response_id"


async def test_calls_without_a_session_go_on_with_each_other(tmp_path: Path) -> None:
    server = _server()
    async with served(tmp_path, server) as (_, through), client_of(through, None) as client:
        first = await client.responses.create(**MODEL, input="Hi.")
        await client.responses.create(**MODEL, input="And?", previous_response_id=first.id)
        async with client_of(through, "s1") as other:
            with pytest.raises(openai.BadRequestError):
                await other.responses.create(**MODEL, input="Hi.", previous_response_id=first.id)
    assert [message["role"] for message in server.calls[-1].json["messages"]] == ["user", "assistant", "user"]


async def test_an_answer_that_failed_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", reply=fixed(say("Hi.")), fault=Fault(status=500, body=b"{}"))
    async with served(tmp_path, server) as (client, _):
        with pytest.raises(openai.InternalServerError) as caught:
            await client.responses.create(**MODEL, input="Hi.")
        server.fault = Fault()
        named = "resp_" + caught.value.response.headers["x-trace-id"].replace("-", "")
        with pytest.raises(openai.BadRequestError, match="not found"):
            await client.responses.create(**MODEL, input="Hi.", previous_response_id=named)


async def test_a_large_body_is_read_beside_the_event_loop_and_a_small_one_on_it() -> None:
    """docs/promises.md D13: many milliseconds in a thread hold nobody up; a thread for each call would cost more."""
    here = threading.get_ident()
    assert await parsed(lambda _: threading.get_ident(), bytes(LARGE_BODY)) == here
    assert await parsed(lambda _: threading.get_ident(), bytes(LARGE_BODY + 1)) != here
