"""Bad input of chats and completions: always an error of OpenAI's with a sentence that helps, and never a 500."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gateway.scripted import ScriptedServer
from tests.gateway.harness import CHAT, traces_in
from tests.gateway.openai_client import served
from tests.gateway.test_facade import TOOL

COMPLETIONS = "/v1/completions"


def _chat(**fields: Any) -> bytes:
    return json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "Hi"}], **fields}).encode()


def _completion(**fields: Any) -> bytes:
    return json.dumps({"model": "scripted", "prompt": "Hi", **fields}).encode()


_IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * (20 << 20)}}
_TOOLS = [{**TOOL, "function": {**TOOL["function"], "name": f"t{n}"}} for n in range(10_000)]
# The path, the body, the status, and words of the sentence; those of a 200 reached the engine.
BAD: dict[str, tuple[str, bytes, int, str]] = {
    "nothing": (CHAT, b"", 400, "empty"),
    "no object": (CHAT, b"[]", 400, "must be a JSON object"),
    "no JSON": (CHAT, b'{"model": ', 400, "not valid JSON"),
    "no messages": (CHAT, b'{"model":"scripted"}', 400, "`messages` is missing"),
    "messages of another kind": (CHAT, _chat(messages="Hi"), 400, "`messages` must be a list of messages"),
    "no model's name": (CHAT, _chat(model=7), 400, "`model` must be a string"),
    "a number of answers that is none": (CHAT, _chat(n="two"), 400, "`n` must be a positive integer"),
    "no answers": (CHAT, _chat(n=0), 400, "`n` must be a positive integer, not 0"),
    "a stream that is none": (CHAT, _chat(stream="yes"), 400, "`stream` must be true or false"),
    "tools of another kind": (CHAT, _chat(tools={"a": 1}), 400, "`tools` must be a list of tools"),
    "lists in lists in lists": (CHAT, _chat()[:-1] + b',"x":' + b"[" * 90_000, 400, "not valid JSON"),
    "no text": (CHAT, b'{"model":"scripted","messages":[{"role":"user","content":"\xff"}]}', 400, "not valid JSON"),
    "another model": (CHAT, _chat(model="gpt-6"), 404, "gpt-6"),
    "ten thousand tools": (CHAT, _chat(tools=_TOOLS), 200, ""),
    "a picture of 20 MB": (CHAT, _chat(messages=[{"role": "user", "content": [_IMAGE]}]), 200, ""),
    "more than may be sent": (CHAT, b" " * (65 << 20), 413, "larger than"),
    "no prompt": (COMPLETIONS, b'{"model":"scripted"}', 400, "`prompt` is missing"),
    "a prompt of another kind": (COMPLETIONS, _completion(prompt={"a": 1}), 400, "`prompt` must be a string, a list"),
    "a prompt of both kinds": (COMPLETIONS, _completion(prompt=["a", 1]), 400, "`prompt` must be a string, a list"),
    "an id that is none": (COMPLETIONS, _completion(prompt=[1, -1]), 400, "`prompt` must be a string, a list"),
    "no text in a prompt": (COMPLETIONS, b'{"model":"scripted","prompt":"\xff"}', 400, "not valid JSON"),
    "a prompt of nothing": (COMPLETIONS, _completion(prompt=[]), 400, ""),
    "logprobs that are no number": (COMPLETIONS, _completion(logprobs="all"), 400, "`logprobs` must be an integer"),
}


async def test_bad_input_gets_an_error_of_openais_with_a_sentence_that_helps(tmp_path: Path) -> None:
    async with served(tmp_path, ScriptedServer("vllm")) as (_, through):
        for name, (path, body, status, says) in BAD.items():
            response = await through.agent.post(path, content=body)
            assert response.status_code == status, (name, response.text[:300])
            if status != 200:
                told = response.json()["error"]
                assert told.keys() == {"message", "type", "param", "code"}, name
                assert says in told["message"], name
                assert told["message"], name
    traces = await traces_in(tmp_path / "rollouts.db")
    assert len(traces) == len(BAD)
    assert {trace.status for trace in traces} == {"ok", "rejected", "backend_error"}
