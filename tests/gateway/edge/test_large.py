"""What is large goes through beside everything else, or is refused (docs/promises.md D13)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, Running, gateway, traces_in

IDS = 1_000_000


async def _meanwhile(served: Running, server: ScriptedServer, **asked: Any) -> tuple[int, int]:
    """The status of a large call, and how many parts of a stream beside it came while it was under way."""
    server.faults.appendleft(Fault(pause=0.005))
    async with served.agent.stream("POST", CHAT, json={**HELLO, "stream": True, "max_tokens": 2000}) as beside:
        parts = beside.aiter_raw()
        await anext(parts)
        large = asyncio.create_task(served.chat(**asked))
        came = 0
        while not large.done():
            await anext(parts)
            came += not large.done()
        return large.result().status_code, came


async def test_other_calls_go_on_while_an_answer_of_a_million_ids_is_read(tmp_path: Path) -> None:
    sampled = b'{"token": "Hi", "logprob": -0.5, "bytes": [72, 105], "top_logprobs": []}'
    answer = b"".join(
        (
            b'{"id": "a", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [{"index": 0, ',
            b'"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop", "token_ids": [7], ',
            b'"logprobs": {"content": [%s]}}], ' % sampled,
            b'"usage": {"prompt_tokens": %d, "completion_tokens": 1, "total_tokens": %d}, ' % (IDS, IDS + 1),
            b'"prompt_token_ids": [%s]}' % b",".join(b"%d" % (at * 7919 % 150_000) for at in range(IDS)),
        )
    )
    server = ScriptedServer("vllm", reply=of_length(2000))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        server.faults.append(Fault(body=answer))
        status, came = await _meanwhile(served, server, session="large")
    assert (status, came >= 5) == (200, True)
    [trace] = await traces_in(tmp_path / "rollouts.db", session_id="large")
    assert (trace.fidelity, len(trace.prompt_token_ids or ())) == ("exact", IDS)
    assert trace.choices[0].logprobs == (-0.5,)


async def test_other_calls_go_on_while_a_request_of_many_megabytes_is_read(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", reply=of_length(2000))
    large = [{"role": "user", "content": "umbrella " * 1_000_000}]
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        status, came = await _meanwhile(served, server, messages=large, max_tokens=1)
    assert (status, came >= 5) == (200, True)


async def test_an_answer_over_the_limit_is_given_up_and_the_next_is_not(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    huge = Fault(body=b'{"choices": [' + b" " * (2 << 20) + b"]}")
    async with running(server) as backend, gateway(tmp_path, backend, max_answer_bytes=1 << 20) as served:
        server.faults.append(huge)
        told = await served.chat()
        assert (told.status_code, "larger than" in told.text) == (502, True)
        assert (await served.chat()).status_code == 200
    assert [trace.status for trace in await traces_in(tmp_path / "rollouts.db")] == ["backend_error", "ok"]
