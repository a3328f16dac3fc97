"""What harnesses send and servers refuse, and the other way round (docs/promises.md C1, C2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.scripts.asked import read
from adapters.scripts.script import Answer, Stamp
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, events, gateway, traces_in

SERVERS = [
    ("vllm", "0.33.0", None),
    ("sglang", "0.5.23", None),
    ("sglang", "0.5.11", "llm360"),
    ("dynamo", "1.6.1", "vllm"),
    ("openai", None, None),
]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
STREAM_OPTIONS = {"include_usage": True}

# What the agent sends beside its messages, and what of that goes upstream.
TIDIED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "options of a stream that is none": ({"stream_options": STREAM_OPTIONS}, {}),
    "options of a stream that is false": ({"stream": False, "stream_options": STREAM_OPTIONS}, {"stream": False}),
    "tools that are none": ({"tools": []}, {}),
    "tools that are null": ({"tools": None}, {}),
    "a choice between no tools": ({"tools": [], "tool_choice": "auto", "parallel_tool_calls": True}, {}),
    "a choice without tools": ({"tool_choice": "none"}, {}),
    "calls at once without tools": ({"parallel_tool_calls": False}, {}),
    "tools": ({"tools": [TOOL], "tool_choice": "auto"}, {"tools": [TOOL], "tool_choice": "auto"}),
    "all else": ({"logit_bias": {"7": -1.0}, "user": "é"}, {"logit_bias": {"7": -1.0}, "user": "é"}),
}
LOOKED_AT = {"tools", "tool_choice", "parallel_tool_calls", "stream", "stream_options", "logit_bias", "user"}


@pytest.mark.parametrize(("engine", "version", "variant"), SERVERS)
async def test_what_says_nothing_is_not_sent_and_the_rest_is_as_it_came(
    tmp_path: Path, engine: str, version: str | None, variant: str | None
) -> None:
    """docs/promises.md C2. The trace keeps what the agent sent."""
    server = ScriptedServer(engine, version=version, variant=variant)
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        for name, (given, sent) in TIDIED.items():
            response = await served.chat(**given)
            assert response.status_code == 200, (name, response.text)
            body = server.calls[-1].json
            assert {key: body[key] for key in LOOKED_AT & body.keys()} == sent, name
    traces = await traces_in(tmp_path / "rollouts.db")
    for trace, (given, _) in zip(traces, TIDIED.values(), strict=True):
        assert json.loads(trace.request.body or b"") == {**HELLO, **given}


@pytest.mark.parametrize(("engine", "version", "variant"), SERVERS)
async def test_options_of_a_stream_go_with_it_only_while_it_is_streamed(
    tmp_path: Path, engine: str, version: str | None, variant: str | None
) -> None:
    """docs/promises.md C2: where the plan is buffered the backend gets no stream, and no options of one."""
    server = ScriptedServer(engine, version=version, variant=variant)
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        response = await served.chat(stream=True, stream_options=STREAM_OPTIONS)
        assert json.loads(events(response.content)[-2])["usage"]["completion_tokens"] > 0
        sent = server.calls[-1].json
        trace = await served.trace(response)
    if trace["plan"] == "buffered":
        assert not {"stream", "stream_options"} & sent.keys()
    else:
        assert (sent["stream"], sent["stream_options"]["include_usage"]) == (True, True)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
async def test_a_limit_beyond_the_whole_context_is_as_good_as_none(
    tmp_path: Path, engine: str, stream: bool, name: str
) -> None:
    """docs/promises.md C2: servers answer with a 400 to the limit of another model, of 64,000 tokens."""
    server = ScriptedServer(engine)
    asked = {key: value for key, value in HELLO.items() if key != "max_tokens"}
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        for limit in (64_000, 32_768, 12):
            response = await served.agent.post(CHAT, json={**asked, name: limit, "stream": stream})
            assert response.status_code == 200
            trace = await served.trace(response)
            kept = {} if limit == 64_000 else {name: limit}
            assert {key: server.calls[-1].json[key] for key in (name,) if key in server.calls[-1].json} == kept
            assert trace["sampling"] == {"requested": {name: limit}, "effective": kept}
        prompt = {"model": "scripted", "prompt": "Once", name: 64_000}
        await served.agent.post("/v1/completions", json=prompt)
    # Legacy completions without a limit end after 16 tokens: what is meant there is the server's to say.
    assert server.calls[-1].json[name] == 64_000


LONG = {
    "/v1/chat/completions": {"messages": HELLO["messages"], "max_tokens": 64_000},
    "/v1/messages": {"messages": HELLO["messages"], "max_tokens": 64_000},
    "/v1/responses": {"input": "Say hello.", "max_output_tokens": 64_000},
}


@pytest.mark.parametrize(("kept", "limits"), [("leave_out", None), ("send", 64_000)])
@pytest.mark.parametrize("path", LONG)
async def test_what_becomes_of_a_limit_beyond_the_context_is_the_owners_to_say(
    tmp_path: Path, path: str, kept: str, limits: int | None
) -> None:
    """docs/promises.md C2."""
    server = ScriptedServer("vllm")
    async with (
        running(server) as backend,
        gateway(tmp_path, backend, max_tokens_beyond_context=kept) as served,
    ):
        response = await served.agent.post(path, json={"model": "scripted", **LONG[path]})
        trace = await served.trace(response)
    assert response.status_code == 200
    assert server.calls[-1].json.get("max_tokens") == limits
    assert trace["sampling"]["requested"] == {"max_tokens": 64_000}
    assert trace["sampling"]["effective"] == ({"max_tokens": limits} if limits else {})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
async def test_details_of_usage_that_are_null_are_left_out(tmp_path: Path, engine: str, stream: bool) -> None:
    """docs/promises.md C2: clients that look inside them break."""
    server = ScriptedServer(engine)
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        await served.chat(stream=stream, stream_options=STREAM_OPTIONS)
        nulls = b'"usage":{"prompt_tokens_details":null,"completion_tokens_details":null,"x":1,'
        server.faults.append(Fault(body=_answer(server).body.replace(b'"usage":{', nulls)))
        response = await served.chat(stream=stream, stream_options=STREAM_OPTIONS)
    told = events(response.content)[-2] if stream else response.content
    usage = json.loads(told)["usage"]
    assert usage["completion_tokens"] > 0
    assert all(value is not None for value in usage.values()), usage


def _answer(server: ScriptedServer) -> Answer:
    """What the server answers to its last call, once more."""
    call = server.calls[-1]
    return server.script.answer(read("chat", call.body, {}), call.speeches, Stamp("1" * 32, 7))


async def test_a_stream_to_an_agent_that_asked_for_a_whole_answer_is_given_whole(tmp_path: Path) -> None:
    """docs/promises.md C1."""
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        whole = (await served.chat()).json()
        await served.chat(stream=True)
        server.faults.append(Fault(body=_answer(server).body, content_type="text/event-stream; charset=utf-8"))
        response = await served.chat()
    assert response.headers["content-type"] == "application/json"
    (said,), (folded,) = whole["choices"], response.json()["choices"]
    assert (folded["message"]["content"], folded["finish_reason"]) == (said["message"]["content"], "stop")
    assert [trace.fidelity for trace in await traces_in(tmp_path / "rollouts.db")] == ["exact"] * 3
