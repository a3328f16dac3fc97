"""A context that is too short for a call, from each engine's words to what an OpenAI client acts on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer
from tests.gateway.harness import traces_in
from tests.gateway.openai_client import served

VLLM = "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens."
LLAMACPP = "request (6009 tokens) exceeds the available context size (2048 tokens), try increasing it"
SGLANG = "The input (6009 tokens) is longer than the model's context length (2048 tokens)."

_NESTED = json.dumps({"error": {"message": VLLM, "type": "BadRequestError", "param": None, "code": 400}}).encode()
_FLAT = {"object": "error", "message": SGLANG, "type": "BadRequestError", "param": None, "code": 400}
_IN_STREAM = b"data: " + json.dumps({"error": _FLAT}).encode() + b"\n\n"
_ANNOTATED = b"event: error\n: " + VLLM.encode() + b"\n\n"
_LATE = json.dumps({"error": {"message": VLLM, "type": "internal_server_error", "code": 500}}).encode()
_STREAM = "text/event-stream"

# Engine, version, variant; its answer; its words. The recordings have the first four; Dynamo tells a worker's refusal
# with a status of its own, or in a stream with a comment.
ENGINES: dict[str, tuple[str, str | None, str | None, Fault, str]] = {
    "vllm": ("vllm", "0.33.0", None, Fault(status=400, body=_NESTED), VLLM),
    "sglang": ("sglang", "0.5.23", None, Fault(status=400, body=json.dumps(_FLAT).encode()), SGLANG),
    "sglang in a stream": (
        "sglang",
        "0.5.9",
        "agentcore",
        Fault(body=_IN_STREAM + b"data: [DONE]\n\n", content_type=_STREAM),
        SGLANG,
    ),
    "dynamo": ("dynamo", "1.6.1", "vllm", Fault(status=500, body=_LATE), VLLM),
    "dynamo in a stream": (
        "dynamo",
        "1.6.1",
        "vllm",
        Fault(body=b"data: " + _LATE + b"\n\ndata: [DONE]\n\n", content_type=_STREAM),
        VLLM,
    ),
    "dynamo in a comment": ("dynamo", "1.6.1", "vllm", Fault(body=_ANNOTATED, content_type=_STREAM), VLLM),
    "llama.cpp": (
        "llamacpp",
        None,
        None,
        Fault(
            status=400,
            body=json.dumps(
                {"error": {"code": 400, "message": LLAMACPP, "type": "exceed_context_size_error"}}
            ).encode(),
        ),
        LLAMACPP,
    ),
}


async def _chat(client: AsyncOpenAI, **asked: Any) -> Any:
    return await client.chat.completions.create(
        model="scripted", messages=[{"role": "user", "content": "Hello?"}], **asked
    )


async def _completions(client: AsyncOpenAI, **asked: Any) -> Any:
    return await client.completions.create(model="scripted", prompt="Hello?", **asked)


async def _responses(client: AsyncOpenAI, **asked: Any) -> Any:
    return await client.responses.create(model="scripted", input="Hello?", **asked)


DIALECTS = {"messages": _chat, "prompt": _completions, "input": _responses}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("engine", ENGINES)
async def test_a_context_overflow_is_openais_in_whatever_words_and_place_an_engine_tells_it(
    tmp_path: Path, engine: str, dialect: str, stream: bool
) -> None:
    """docs/promises.md C3."""
    name, version, variant, fault, words = ENGINES[engine]
    server = ScriptedServer(name if name != "llamacpp" else "openai", version=version, variant=variant, fault=fault)
    async with served(tmp_path, server) as (client, _):
        with pytest.raises(openai.BadRequestError) as caught:
            await DIALECTS[dialect](client, stream=stream)
    told: Any = caught.value.body
    assert (told["type"], told["param"], told["code"]) == ("invalid_request_error", dialect, "context_length_exceeded")
    assert told["message"].startswith("This model's maximum context length is 2048 tokens. However, ")
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert (trace.status, trace.http_status) == ("backend_error", 400)
    assert trace.error is not None
    assert trace.error.message == words


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_overflow_behind_the_first_tokens_is_told_in_the_stream(tmp_path: Path, dialect: str) -> None:
    """docs/promises.md C3: an engine that stops where its context ends, and says so."""
    server = ScriptedServer("sglang", version="0.5.9", variant="agentcore", reply=of_length(8))
    async with served(tmp_path, server, capture="stream") as (client, _):
        server.fault = Fault(insert={4: _IN_STREAM}, after_frames=4, pause=0.01)
        stream = await DIALECTS[dialect](client, stream=True)
        with pytest.raises(openai.APIError) as caught:
            async for _ in stream:
                pass
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.message.startswith("This model's maximum context length is 2048 tokens. However, your")
    (trace,) = await traces_in(tmp_path / "rollouts.db")
    assert trace.error is not None
    assert trace.error.message == SGLANG
