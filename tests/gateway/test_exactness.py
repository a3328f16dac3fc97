"""A trace's tokens are the sampled ones (docs/promises.md A), whatever engine, version and form of answer."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from adapters.schema import Trace
from adapters.scripts.replies import fixed
from adapters.scripts.script import Frame
from adapters.scripts.speech import Called, say, say_ids
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import events, gateway, traces_in
from tests.gateway.telling import TELLING
from tests.gateway.twisted import Twisted, garbled

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
CALLS = say("So.", reasoning="Hm.", calls=[Called("look", '{"at": "☂"}'), Called("look", "{}")])
TEXT = say("Grüße 👋 from a small model.")


async def recorded(
    tmp_path: Path, server: ScriptedServer, *, settings: dict[str, Any] | None = None, **asked: Any
) -> Trace:
    """The trace of one call, whose agent got an answer."""
    async with running(server) as backend, gateway(tmp_path, backend, **(settings or {})) as served:
        response = await served.chat(**asked)
        assert response.status_code == 200, response.text
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    return trace


def _ids(trace: Trace) -> list[list[int] | None]:
    return [None if choice.token_ids is None else choice.token_ids.tolist() for choice in trace.choices]


def _told(server: ScriptedServer) -> list[list[int]]:
    """What the last call sampled, a list a choice."""
    return [list(speech.ids) for speech in server.calls[-1].speeches]


@pytest.mark.parametrize("version", ["0.10.2", "0.11.0", "0.12.0", "0.13.0"])
async def test_a_stream_that_would_lose_a_parsers_steps_is_not_asked_for(tmp_path: Path, version: str) -> None:
    """docs/promises.md A1: vLLM 0.10.2 to 0.12 send nothing for a step that the parser keeps to itself."""
    server = ScriptedServer("vllm", version=version, reply=fixed(CALLS))
    trace = await recorded(tmp_path, server, stream=True, tools=[TOOL], max_tokens=200)
    assert (trace.fidelity, _ids(trace)) == ("exact", _told(server))
    assert (trace.plan, "stream" in server.calls[-1].json) == (
        ("streamed", True) if version == "0.13.0" else ("buffered", False)
    )


async def test_ids_that_a_stream_lost_are_missed(tmp_path: Path) -> None:
    """docs/promises.md A1: whoever wants the stream all the same has the loss told, by the engine's own count."""
    server = ScriptedServer("vllm", version="0.11.0", reply=fixed(CALLS))
    asked = {"stream": True, "tools": [TOOL], "max_tokens": 200}
    trace = await recorded(tmp_path, server, settings={"capture": "stream"}, **asked)
    (kept,) = _ids(trace)
    assert kept is not None
    assert len(kept) < len(CALLS.ids)
    assert trace.fidelity == "partial"
    assert trace.fidelity_reason == f"{len(kept)} completion ids where the engine counted {len(CALLS.ids)} tokens"


@pytest.mark.parametrize(("version", "variant"), [("0.5.17", None), ("0.5.23", None), ("0.5.11", "llm360")])
async def test_an_engine_that_refuses_ids_in_streams_is_asked_for_a_whole_answer(
    tmp_path: Path, version: str, variant: str | None
) -> None:
    """docs/promises.md A2: and the agent has its stream."""
    server = ScriptedServer("sglang", version=version, variant=variant, reply=fixed(TEXT))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        response, body = await served.stream()
    assert response.headers["content-type"].startswith("text/event-stream")
    chunks = [json.loads(data) for data in events(body)[:-1]]
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == TEXT.text("content")
    assert "stream" not in server.calls[-1].json
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.plan, trace.fidelity, _ids(trace)) == ("buffered", "exact", _told(server))


@pytest.mark.parametrize("version", ["0.20.2", "0.25.0", "0.26.0", "0.33.0"])
@pytest.mark.parametrize("asked", [{"logprobs": True, "top_logprobs": None}, {"logprobs": None, "top_logprobs": None}])
async def test_a_null_of_top_logprobs_costs_no_logprobs(tmp_path: Path, version: str, asked: dict[str, Any]) -> None:
    """docs/promises.md A4: for vLLM up to 0.25 it means none at all."""
    trace = await recorded(tmp_path, ScriptedServer("vllm", version=version, reply=fixed(TEXT)), **asked)
    assert (trace.logprobs_fidelity, trace.choices[0].logprobs) == ("exact", TEXT.logprobs)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "dynamo"])
async def test_logprobs_that_an_agent_does_not_want_are_recorded_and_not_shown(tmp_path: Path, engine: str) -> None:
    """docs/promises.md F17: whether it says false, null or nothing."""
    server = ScriptedServer(engine, reply=fixed(TEXT))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        for stream, asked in product([False, True], [{}, {"logprobs": False}, {"logprobs": None}]):
            response = await served.chat(stream=stream, **asked)
            assert server.calls[-1].json["logprobs"] is True
            assert b'"logprob"' not in response.content
            assert b'"logprobs":{' not in response.content
            trace = await served.trace(response)
            assert (trace["logprobs_fidelity"], trace["choices"][0]["logprobs"]) == ("exact", list(TEXT.logprobs))
            asked_for = {"prompt": "Once", "model": "scripted", "stream": stream, **asked}
            response = await served.agent.post("/v1/completions", json={**asked_for, "logprobs": None})
            assert b"token_logprobs" not in response.content
            trace = await served.trace(response)
            if trace["fidelity"] == "exact":
                assert (trace["logprobs_fidelity"], bool(trace["choices"][0]["logprobs"])) == ("exact", True)


@pytest.mark.parametrize(("engine", "version", "variant"), TELLING)
async def test_logprobs_are_those_of_the_tokens_or_null_with_a_reason(
    tmp_path: Path, engine: str, version: str, variant: str | None
) -> None:
    """docs/promises.md A5: streams that lack those of EOS, of fragments of a character and of tool calls."""
    server = ScriptedServer(engine, version=version, variant=variant)
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        for capture, speech in product(["exact", "ids", "stream"], [TEXT, CALLS]):
            server.reply = fixed(speech)
            session = (await served.agent.post("/api/sessions", json={"capture": capture})).json()["session_id"]
            response = await served.chat(session=session, stream=True, max_tokens=200)
            trace = await served.trace(response)
            (choice,) = trace["choices"]
            if trace["logprobs_fidelity"] != "exact":
                assert (choice["logprobs"], bool(trace["logprobs_reason"]), capture != "exact") == (None, True, True)
            elif trace["fidelity"] == "exact":
                assert (choice["token_ids"], choice["logprobs"]) == (list(speech.ids), list(speech.logprobs))
            else:
                # Of the tokens that came each has its own, though some are missing.
                pairs = list(zip(speech.ids, speech.logprobs, strict=True))
                assert set(zip(choice["token_ids"], choice["logprobs"], strict=True)) <= set(pairs)


@pytest.mark.parametrize(("engine", "version", "variant"), TELLING)
async def test_several_choices_stay_apart(tmp_path: Path, engine: str, version: str, variant: str | None) -> None:
    """docs/promises.md A9: in a stream their tokens come in turns."""
    speeches = [say("One, two, three."), say("四 ☂"), say("Something much longer than the others are.")]
    server = ScriptedServer(engine, version=version, variant=variant, reply=fixed(*speeches))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        for stream in (False, True):
            assert (await served.chat(stream=stream, n=3)).status_code == 200
    for trace in await traces_in(tmp_path / "rollouts.db"):
        assert [choice.index for choice in trace.choices] == [0, 1, 2]
        assert [choice.text for choice in trace.choices] == [speech.text("content") for speech in speeches]
        assert (trace.fidelity, _ids(trace)) == ("exact", [list(speech.ids) for speech in speeches])
        assert [choice.logprobs for choice in trace.choices] == [speech.logprobs for speech in speeches]


@pytest.mark.parametrize("stream", [False, True])
async def test_nobody_told_is_null_and_nothing_sampled_is_empty(tmp_path: Path, stream: bool) -> None:
    """docs/promises.md A10."""
    silent = await recorded(tmp_path, ScriptedServer("openai"), stream=stream)
    assert (silent.prompt_token_ids, _ids(silent), silent.choices[0].logprobs) == (None, [None], None)
    assert (silent.fidelity, bool(silent.fidelity_reason)) == ("none", True)
    (tmp_path / "other").mkdir()
    empty = await recorded(tmp_path / "other", _of_nothing(), stream=stream)
    assert (_ids(empty), empty.choices[0].text, empty.fidelity) == ([[]], "", "exact")


def _of_nothing() -> ScriptedServer:
    """A server whose model ends before its first token, and which says so."""
    server = ScriptedServer("vllm", reply=fixed(say_ids([5])))
    server.script = Twisted(server.script, lambda frames: [Frame(_emptied(frame.data)) for frame in frames])
    return server


def _emptied(data: bytes) -> bytes:
    for told, empty in [
        (b'"token_ids":[5]', b'"token_ids":[]'),
        (b'"completion_tokens":1', b'"completion_tokens":0'),
        (b'"content":"', b'"content":"","x":"'),
    ]:
        data = data.replace(told, empty)
    return data


@pytest.mark.parametrize("raw", [False, True], ids=["escaped", "raw"])
async def test_what_unicode_calls_a_line_end_ends_no_line(tmp_path: Path, raw: bool) -> None:
    """docs/promises.md A11: legal inside JSON, and more than one client cuts lines there."""
    separators = "\u2028\u2029\u0085" if raw else "\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e"
    said = "two".join(separators)
    server = ScriptedServer("vllm", reply=fixed(say(said)))
    server.script = garbled(server.script, lambda body: _spelled(body, separators, raw=raw))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        _, body = await served.stream()
    chunks = [json.loads(data) for data in events(body)[:-1]]
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == said
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.fidelity, _ids(trace), trace.choices[0].text) == ("exact", _told(server), said)


def _spelled(body: bytes, separators: str, *, raw: bool) -> bytes:
    """With the separators as themselves, or as JSON may escape them."""
    for each in separators:
        forms = (f"\\u{ord(each):04x}".encode(), each.encode())
        body = body.replace(*(forms if raw else reversed(forms)))
    assert (b"\\u20" in body) != raw
    return body


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("version", ["0.20.2", "0.33.0"])
async def test_reasoning_that_is_not_wanted_is_hidden_and_its_ids_are_not_lost(
    tmp_path: Path, version: str, stream: bool
) -> None:
    """docs/promises.md A12: told to leave it out, vLLM from 0.26 on blanks the ids of the answer."""
    server = ScriptedServer("vllm", version=version, reply=fixed(CALLS))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        response = await served.chat(stream=stream, include_reasoning=False, tools=[TOOL], max_tokens=200)
    assert b"reasoning" not in response.content.replace(b"reasoning_tokens", b"")
    assert b"Hm" not in response.content
    assert "include_reasoning" not in server.calls[-1].json
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.fidelity, _ids(trace), trace.choices[0].reasoning) == ("exact", _told(server), "Hm.")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("engine", ["vllm", "sglang", "dynamo"])
async def test_the_ids_of_a_prompt_with_pictures_are_the_engines(tmp_path: Path, engine: str, stream: bool) -> None:
    """docs/promises.md A13: an engine puts a picture's own ids into the prompt, which no text would give."""
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    content = [{"type": "text", "text": "What is this?"}, picture]
    server = ScriptedServer(engine)
    trace = await recorded(tmp_path, server, stream=stream, messages=[{"role": "user", "content": content}])
    asked = server.calls[-1].asked
    assert asked is not None
    assert server.calls[-1].json["messages"][0]["content"] == content
    assert trace.prompt_token_ids is not None
    assert (trace.fidelity, [tuple(trace.prompt_token_ids)]) == ("exact", list(asked.prompts))


@pytest.mark.parametrize(
    ("engine", "backend", "mode"),
    [
        ("vllm", "", "raw"),
        ("vllm", ",features=processed_logprobs", "processed"),
        ("sglang", "", "processed"),
        ("openai", "", None),
    ],
)
async def test_a_trace_says_whether_its_logprobs_are_before_or_after_temperature(
    tmp_path: Path, engine: str, backend: str, mode: str | None
) -> None:
    """docs/promises.md A8: by the engine's default, or the configuration's word; of no logprobs nothing."""
    server = ScriptedServer(engine)
    async with running(server) as url, gateway(tmp_path, url + backend) as served:
        response = await served.chat(temperature=0.7)
        assert (await served.trace(response))["logprobs_mode"] == mode
