"""A client that gave up and asked again: what the engine had answered is kept, and the next call finds its own
(docs/promises.md B5)."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest
from openai import AsyncOpenAI

from adapters.schema import Trace
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import HELLO, Running, gateway, traces_in, until

LEFT = "abandoned: The call ended before the backend began to answer."


async def goes_on(served: Running, answer: str | None) -> None:
    """The call after the one that was answered."""
    history = [*HELLO["messages"], {"role": "assistant", "content": answer}, {"role": "user", "content": "And now?"}]
    assert (await served.chat(session="s1", messages=history)).status_code == 200


def _each_was_tried_once(traces: list[Trace]) -> None:
    for trace in traces:
        assert [attempt.backend for attempt in trace.attempts] == [trace.backend]


async def test_an_sdk_that_timed_out_asks_again_and_its_session_goes_on_from_the_answer(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        server.faults.append(Fault(delay=20))
        base = f"{served.url}/sessions/s1/v1"
        async with AsyncOpenAI(base_url=base, api_key="none", timeout=0.5, max_retries=1) as client:
            told = await client.chat.completions.create(model="scripted", messages=HELLO["messages"])
        await goes_on(served, told.choices[0].message.content)
        await until(lambda: all(status != "running" for status, _ in served.statuses()))
    late, again, after = traces = await traces_in(tmp_path / "rollouts.db")
    assert [trace.status for trace in traces] == ["client_disconnected", "ok", "ok"]
    _each_was_tried_once(traces)
    assert [trace.attempts[0].error for trace in traces] == [LEFT, None, None]
    assert (again.retry_of, after.retry_of) == (late.trace_id, None)
    assert (again.parent_trace_id, after.parent_trace_id) == (None, again.trace_id)


async def test_a_stream_that_stalled_is_kept_as_far_as_it_came_and_is_nobodys_parent(tmp_path: Path) -> None:
    """The harness's own second try: nothing says that it is one."""
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        server.faults.append(Fault(after_frames=6, ending="hung"))
        base = f"{served.url}/sessions/s1/v1"
        async with AsyncOpenAI(base_url=base, api_key="none", timeout=0.5, max_retries=0) as client:
            with pytest.raises((openai.APITimeoutError, openai.APIConnectionError)):
                async with client.chat.completions.stream(model="scripted", messages=HELLO["messages"]) as stream:
                    await stream.get_final_completion()
            told = await client.chat.completions.create(model="scripted", messages=HELLO["messages"])
        await goes_on(served, told.choices[0].message.content)
        await until(lambda: all(status != "running" for status, _ in served.statuses()))
        [sample] = (await served.agent.get("/api/sessions/s1/samples")).json()["items"]
    late, again, after = traces = await traces_in(tmp_path / "rollouts.db")
    assert [(trace.status, trace.fidelity) for trace in traces] == [
        ("client_disconnected", "partial"),
        ("ok", "exact"),
        ("ok", "exact"),
    ]
    _each_was_tried_once(traces)
    came = list(late.choices[0].token_ids or ())
    assert came
    assert came == list(again.choices[0].token_ids or ())[: len(came)]
    assert (again.parent_trace_id, after.parent_trace_id) == (None, again.trace_id)
    assert sample["trace_ids"] == [again.trace_id, after.trace_id]
