"""OpenAI's SDK gets through the gateway what OpenAI's Responses would have sent, whatever engine answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from adapters.schema import Trace
from adapters.scripts.replies import Reply, by_turn, fixed
from adapters.scripts.speech import Called, say
from gateway.dialects import thought
from gateway.scripted import ScriptedServer
from tests.gateway.harness import traces_in
from tests.gateway.openai_client import ASKED, SERVERS, served, streamed

PARIS, TOKYO = '{"city": "Paris"}', '{"city":"Tokyo"}'
BEGIN = '*** Begin Patch\n+a = "é"\n*** End Patch'

SPEECHES = {
    "text": say("Hello! It is 18 °C. ☂ 👋"),
    "reasoning": say("Four.", reasoning="Two and two."),
    "tool": say(calls=[Called("get_weather", PARIS)]),
    "parallel tools": say("Let me look.", calls=[Called("get_weather", PARIS), Called("get_weather", TOKYO)]),
    "custom tool": say(calls=[Called("apply_patch", '{"input": "*** Begin Patch\\n+a = \\"é\\"\\n*** End Patch"}')]),
    "all": say("Let me look.", reasoning="Where?", calls=[Called("get_weather", PARIS)]),
    "refusal": replace(say("I can't."), finish="content_filter"),
    "length": say("One two three", end=None),
    "nothing": say(),
}


def _thought(words: str) -> dict[str, Any]:
    return {
        "type": "reasoning",
        "id": "rs",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": words}],
        "encrypted_content": thought.sign(words, shown=False),
        "status": "completed",
    }


def _text(words: str, status: str = "completed") -> dict[str, Any]:
    part = {"type": "output_text", "text": words, "annotations": [], "logprobs": []}
    return {"type": "message", "id": "msg", "role": "assistant", "status": status, "content": [part]}


def _weather(arguments: str) -> dict[str, Any]:
    call = {"type": "function_call", "id": "fc", "call_id": "…", "name": "get_weather"}
    return {**call, "arguments": arguments, "status": "completed"}


# What OpenAI's API says of each of these answers: output, status, and why it is incomplete.
MEANT: dict[str, tuple[list[dict[str, Any]], str, str | None]] = {
    "text": ([_text("Hello! It is 18 °C. ☂ 👋")], "completed", None),
    "reasoning": ([_thought("Two and two."), _text("Four.")], "completed", None),
    "tool": ([_weather(PARIS)], "completed", None),
    "parallel tools": ([_text("Let me look."), _weather(PARIS), _weather(TOKYO)], "completed", None),
    "custom tool": (
        [{"type": "custom_tool_call", "id": "ctc", "call_id": "…", "name": "apply_patch", "input": BEGIN}],
        "completed",
        None,
    ),
    "all": ([_thought("Where?"), _text("Let me look."), _weather(PARIS)], "completed", None),
    "refusal": ([_text("I can't.", "incomplete")], "incomplete", "content_filter"),
    "length": ([_text("One two three", "incomplete")], "incomplete", "max_output_tokens"),
    "nothing": ([], "completed", None),
}


def _said(response: Response) -> dict[str, Any]:
    """Without what is different each time."""
    told = response.model_dump(exclude_none=True, warnings=False, by_alias=True)
    trace = told.pop("id").removeprefix("resp_")
    assert len(trace) == 32
    told.pop("created_at")
    assert ("completed_at" in told) == (told["status"] == "completed")
    told.pop("completed_at", None)
    ids = [item["id"] for item in told["output"]]
    assert len({*ids}) == len(ids)
    for item in told["output"]:
        kind, of, _ = item["id"].split("_")
        assert of == trace
        item["id"] = kind
        if "call_id" in item:
            assert item["call_id"]
            item["call_id"] = "…"
        if item["type"] == "custom_tool_call":
            item.pop("status")
        item.pop("parsed_arguments", None)
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return told


def _reference(said: str, engine: str, trace: Trace) -> dict[str, Any]:
    output, status, reason = MEANT[said]
    if engine == "openai":
        # A server of plain OpenAI answers tells no thoughts.
        output = [item for item in output if item["type"] != "reasoning"]
    assert trace.usage is not None
    reference = {
        "object": "response",
        "model": "scripted",
        "output": output,
        "status": status,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": ASKED["tools"],
        "background": False,
        "max_output_tokens": 200,
        "metadata": {},
        "reasoning": {},
        "store": True,
        "text": {"format": {"type": "text"}},
        "top_logprobs": 0,
        "truncation": "disabled",
        "usage": {
            "input_tokens": trace.usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": trace.usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": trace.usage.reasoning_tokens or 0},
            "total_tokens": trace.usage.total_tokens,
        },
    }
    return reference if reason is None else {**reference, "incomplete_details": {"reason": reason}}


@pytest.mark.parametrize(("engine", "version", "variant"), SERVERS)
async def test_every_answer_is_what_openais_would_be(
    tmp_path: Path, engine: str, version: str | None, variant: str | None
) -> None:
    server = ScriptedServer(engine, version=version, variant=variant)
    answers: list[tuple[str, Response]] = []
    async with served(tmp_path, server) as (client, _):
        for said, speech in SPEECHES.items():
            server.reply = fixed(speech)
            answers.append((said, await client.responses.create(**ASKED)))
            last, events = await streamed(client, **ASKED)
            answers.append((said, last))
            _check_order(events)
            assert last.output_text == speech.text("content")
    traces = await traces_in(tmp_path / "rollouts.db")
    for (said, answer), trace in zip(answers, traces, strict=True):
        assert _said(answer) == _reference(said, engine, trace), said
        assert (trace.dialect, trace.status) == ("responses", "ok")
        assert answer.id == f"resp_{trace.trace_id.replace('-', '')}"
        if engine != "openai":
            assert trace.fidelity == "exact", said
            assert tuple(trace.choices[0].token_ids or ()) == SPEECHES[said].ids


_EACH: dict[str, tuple[str, ...]] = {
    "reasoning": ("content_part.added", "reasoning_text.delta", "reasoning_text.done", "content_part.done"),
    "message": ("content_part.added", "output_text.delta", "output_text.done", "content_part.done"),
    "function_call": ("function_call_arguments.delta", "function_call_arguments.done"),
    "custom_tool_call": ("custom_tool_call_input.delta", "custom_tool_call_input.done"),
}


def _check_order(events: list[Any]) -> None:
    """Created, in progress, then the items, each with all of its events in their order, then the end; all numbered."""
    assert [event.sequence_number for event in events] == [*range(len(events))]
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert {event.response.status for event in events[:2]} == {"in_progress"}
    last = events[-1].response
    at = 2
    for index, item in enumerate(last.output):
        first, at = at, next(n for n, e in enumerate(events) if n >= at and e.type == "response.output_item.done") + 1
        of_item = events[first:at]
        assert {event.output_index for event in of_item} == {index}
        assert {getattr(event, "item_id", item.id) for event in of_item} == {item.id}
        names = [event.type.removeprefix("response.") for event in of_item]
        assert list(dict.fromkeys(names)) == ["output_item.added", *_EACH[item.type], "output_item.done"]
        assert of_item[0].item.id == item.id
        assert _bare(of_item[-1].item) == _bare(item)
        deltas = "".join(event.delta for event in of_item if event.type.endswith(".delta"))
        assert deltas == _words(item)
    assert at == len(events) - 1


def _bare(item: Any) -> dict[str, Any]:
    """Without what the SDK adds."""
    told: dict[str, Any] = item.to_dict()
    told.pop("parsed_arguments", None)
    for part in told.get("content", ()):
        part.pop("parsed", None)
    return told


def _words(item: Any) -> str:
    match item.type:
        case "function_call":
            return str(item.arguments)
        case "custom_tool_call":
            return str(item.input)
        case _:
            return "".join(part.text for part in item.content)


async def test_the_bytes_of_a_stream_are_those_of_openais(tmp_path: Path) -> None:
    """Each event's own type of the SDK takes it as it is, nothing missing."""
    server = ScriptedServer("vllm", reply=fixed(SPEECHES["all"]))
    async with served(tmp_path, server) as (_, through):
        response = await through.agent.post("/v1/responses", json={**ASKED, "stream": True})
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    events = [event.split(b"\n") for event in response.content.removesuffix(b"\n\n").split(b"\n\n")]
    told = [(name.removeprefix(b"event: ").decode(), json.loads(data.removeprefix(b"data: "))) for name, data in events]
    known: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    for name, body in told:
        assert name == body["type"]
        assert known.validate_python(body).type == name
    assert b"[DONE]" not in response.content


ENOUGH_TOOLS = [Called("get_weather", PARIS), Called("apply_patch", '{"input": "+a = \\"b\\""}')]


WAYS = ["items", "previous", "references", "encrypted"]


@pytest.mark.parametrize(
    ("engine", "version", "variant", "way"),
    [*((*SERVERS[0], way) for way in WAYS), (*SERVERS[2], "previous"), (*SERVERS[7], "encrypted")],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_agents_loop_is_one_sequence_of_tokens(
    tmp_path: Path, engine: str, version: str | None, variant: str | None, stream: bool, way: str
) -> None:
    """Thoughts, calls and their ids come back as they went out, so each prompt extends the one before it."""
    reply: Reply = by_turn(
        say("Let me look.", reasoning="Where?", calls=ENOUGH_TOOLS),
        say(reasoning="Once more.", calls=ENOUGH_TOOLS[:1]),
        say("It rains.", reasoning="I see."),
    )
    server = ScriptedServer(engine, version=version, variant=variant, reply=reply)
    history: list[Any] = [{"role": "user", "content": "Weather?"}]
    asked: dict[str, Any] = {**ASKED, "instructions": "Be brief.", "input": history}
    async with served(tmp_path, server) as (client, _):
        while True:
            answer = (await streamed(client, **asked))[0] if stream else await client.responses.create(**asked)
            calls = [item for item in answer.output if item.type in ("function_call", "custom_tool_call")]
            if not calls:
                break
            results = [{"type": f"{c.type}_output", "call_id": c.call_id, "output": "rain"} for c in calls]
            history = results if way == "previous" else [*history, *_sent_back(answer, way), *results]
            asked["input"] = history
            if way == "previous":
                asked["previous_response_id"] = answer.id
    traces = await traces_in(tmp_path / "rollouts.db")
    assert [trace.fidelity for trace in traces] == ["exact"] * 3
    assert [trace.parent_trace_id for trace in traces] == [None, traces[0].trace_id, traces[1].trace_id]
    sent = server.calls[-1].json["messages"]
    roles = ["system", "user", "assistant", "tool", "tool", "assistant", "tool"]
    assert [message["role"] for message in sent] == roles
    assert [call["id"] for call in sent[2]["tool_calls"]] == [message["tool_call_id"] for message in sent[3:5]]


def _sent_back(answer: Response, way: str) -> list[Any]:
    items = [_bare(item) for item in answer.output]
    if way == "references":
        return [{"type": "item_reference", "id": item["id"]} for item in items]
    for item in items:
        if way == "encrypted":  # As Codex does.
            item.pop("id")
            if item["type"] == "reasoning":
                item.pop("content")
    return items


def test_every_speech_has_its_meaning() -> None:
    assert SPEECHES.keys() == MEANT.keys()
