"""Over real sockets: an agent's session becomes a trainer's sample, and what breaks off is told as such."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from gateway.client import Client, Unreachable
from gateway.scripted import ScriptedServer, running
from tests.gateway.client.harness import Loop
from tests.gateway.harness import gateway


def ask(base_url: str, key: str, *said: str) -> str:
    """An agent's call, as its SDK makes it."""
    messages: Any = [{"role": "user", "content": text} for text in said]
    with OpenAI(base_url=base_url, api_key=key, max_retries=0) as openai:
        return openai.chat.completions.create(model="scripted", messages=messages).choices[0].message.content or ""


def test_what_a_server_sampled_is_what_a_trainer_gets(connect: Callable[..., Any], loop: Loop, tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    with loop.within(running(server)) as backend, loop.within(gateway(tmp_path, backend)) as served:
        client = connect(url=served.url)
        with client.session(run="r1", metadata={"seed": 7}) as s:
            assert ask(s.base_url, s.key, "Say hello.")
            s.reward(0.5)
        (sample,) = client.samples(run="r1", wait=5)
        (trace,) = client.traces(session=s.id)
    (call,) = server.calls
    assert call.asked is not None
    prompt, speech = list(call.asked.prompts[0]), call.speeches[0]
    assert sample.token_ids.tolist() == prompt + list(speech.ids)
    assert sample.mask.tolist() == [0] * len(prompt) + [1] * len(speech.ids)
    assert sample.logprobs[len(prompt) :].tolist() == pytest.approx(list(speech.logprobs))
    assert (sample.reward, sample.first_prompt_len) == (0.5, len(prompt))
    assert trace.fidelity == "exact"
    assert trace.choices[0].token_ids.tolist() == list(speech.ids)


def test_a_client_that_nobody_holds_leaves_no_connection_open(loop: Loop, tmp_path: Path) -> None:
    with loop.within(gateway(tmp_path)) as served:
        with Client(served.url).session(run="r1") as s:
            s.reward(0.7)
        del s
        gc.collect()  # Python warns of each socket that is still open, and a warning fails a test.


@asynccontextmanager
async def breaking_off() -> AsyncIterator[str]:
    """The URL of a server that promises more than it sends."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nPAR1")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


def test_a_file_that_broke_off_is_not_there(connect: Callable[..., Any], loop: Loop, tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    path.write_bytes(b"an older one")
    with loop.within(breaking_off()) as url, pytest.raises(Unreachable, match="GET /api/export got no answer"):
        connect(url=url).export(path, format="parquet")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"samples.parquet": b"an older one"}


def test_a_gateway_that_is_not_there_is_unreachable(connect: Callable[..., Any]) -> None:
    with pytest.raises(Unreachable, match="POST /api/sessions got no answer"):
        connect(url="http://127.0.0.1:9", retries=0).create_session()
