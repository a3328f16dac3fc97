"""A session's turns (docs/promises.md A6, A7): nothing is rendered anew or added; a parent is an exact prefix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from adapters.schema import Trace
from adapters.scripts.replies import by_turn
from adapters.scripts.speech import Called, Speech, say
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import HELLO, gateway, traces_in

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
Message = dict[str, Any]


async def two_turns(
    tmp_path: Path, engine: str, speech: Speech, edit: Any, **asked: Any
) -> tuple[Trace, Trace, ScriptedServer]:
    """A call, and one whose history is its answer as `edit` leaves it."""
    server = ScriptedServer(engine, reply=by_turn(speech, say("Done.")))
    messages: list[Message] = [*HELLO["messages"]]
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        first = await served.chat(session="s", messages=messages, tools=[TOOL], **asked)
        message: Message = first.json()["choices"][0]["message"]
        answer = {key: message[key] for key in ("role", "content", "tool_calls", "reasoning") if message.get(key)}
        edit(answer)
        messages += [answer, {"role": "user", "content": "Go on."}]
        assert (await served.chat(session="s", messages=messages, tools=[TOOL])).status_code == 200
    one, two = await traces_in(tmp_path / "rollouts.db")
    return one, two, server


def _as_it_was(message: Message) -> None:
    pass


def _respaced(message: Message) -> None:
    """As harnesses do that parse arguments and write them again."""
    for call in message["tool_calls"]:
        call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), separators=(",", ":"))


def _without_thought(message: Message) -> None:
    del message["reasoning"]


def _trimmed(message: Message) -> None:
    message["content"] = message["content"].strip()


def _sequence(trace: Trace) -> list[int]:
    assert trace.prompt_token_ids is not None
    assert trace.choices[0].token_ids is not None
    return [*trace.prompt_token_ids, *trace.choices[0].token_ids]


def _as_the_server_has_it(traces: tuple[Trace, Trace], server: ScriptedServer) -> None:
    """Each trace has the prompt that the server read and the tokens that it sampled, and no other."""
    for trace, call in zip(traces, server.calls[-2:], strict=True):
        assert call.asked is not None
        assert _sequence(trace) == [*call.asked.prompts[0], *call.speeches[0].ids]
        assert trace.fidelity == "exact"


CALL = say("Look.", calls=[Called("look", '{"a": 1, "b": false}')])


@pytest.mark.parametrize(
    ("speech", "edit"),
    [
        (CALL, _respaced),
        (say("Four.", reasoning="Two and two."), _without_thought),
        (say(" Four. "), _trimmed),
    ],
    ids=["arguments written anew", "a thought left out", "text trimmed"],
)
async def test_a_history_that_was_written_anew_is_not_taken_for_what_was_sampled(
    tmp_path: Path, speech: Speech, edit: Any
) -> None:
    """docs/promises.md A6: what was sampled stays as it was, the next prompt as the engine read it; neither follows."""
    one, two, server = await two_turns(tmp_path, "vllm", speech, edit)
    _as_the_server_has_it((one, two), server)
    assert (two.parent_trace_id, two.parent_index) == (None, None)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "dynamo"])
@pytest.mark.parametrize("speech", [say("Four."), CALL], ids=["text", "call"])
async def test_a_history_as_it_was_continues_the_call_that_it_repeats(
    tmp_path: Path, engine: str, speech: Speech
) -> None:
    """docs/promises.md A7: the end of the answer stands in the next prompt once."""
    one, two, server = await two_turns(tmp_path, engine, speech, _as_it_was)
    _as_the_server_has_it((one, two), server)
    assert (two.parent_trace_id, two.parent_index) == (one.trace_id, 0)
    assert two.prompt_token_ids is not None
    before = _sequence(one)
    assert list(two.prompt_token_ids)[: len(before)] == before
    # What follows is the template's and the user's; the end token that was sampled is not among it again.
    assert before[-1] == speech.eos
    assert two.prompt_token_ids[len(before)] != speech.eos


@pytest.mark.parametrize("engine", ["vllm", "sglang", "dynamo"])
async def test_an_answer_that_was_cut_has_no_end_token(tmp_path: Path, engine: str) -> None:
    """docs/promises.md A7: the template writes one into the next prompt, as given and not as sampled."""
    one, two, server = await two_turns(tmp_path, engine, say("One two three four five."), _as_it_was, max_tokens=3)
    _as_the_server_has_it((one, two), server)
    (cut,) = one.choices
    assert (cut.finish_reason, len(cut.token_ids or ())) == ("length", 3)
    assert two.parent_trace_id == one.trace_id
