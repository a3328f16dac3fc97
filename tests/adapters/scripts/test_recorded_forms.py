"""A recorded request gets from its script the form that it got from the real engine: keys, order, chunks."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from adapters.request import Endpoint
from adapters.scripts import SCRIPTS
from adapters.scripts.asked import read
from adapters.scripts.script import Answer, Stamp, said
from adapters.scripts.speech import Called, Speech, say
from adapters.scripts.vocabulary import HALT

RECORDINGS = Path(__file__).parents[2] / "recordings"
STAMP = Stamp("0123456789abcdef0123456789abcdef", 1795253488)
PARIS = Called("get_weather", '{"city": "Paris"}')
TOKYO = Called("get_weather", '{"city": "Tokyo"}')

TEXT = say("Hello! I am a tiny scripted model.")
# This server's parser took all text for reasoning where no thought had ended.
UNENDED_THOUGHT = say(reasoning="Hello! I am a tiny scripted model.")
THOUGHT = say("\n\nThe answer is 4.", reasoning="\nTwo plus two makes four.\n")
CALL = say(calls=[PARIS])
CALLS = say(calls=[PARIS, TOKYO])
STORY = say(" there was a tiny model.", end=HALT)

CASES = [
    ("vllm-0.32.0/chat_plain_noflags", UNENDED_THOUGHT),
    ("vllm-0.32.0/chat_plain_logprobs", UNENDED_THOUGHT),
    ("vllm-0.32.0/chat_n2", UNENDED_THOUGHT),
    ("vllm-0.32.0/chat_think", THOUGHT),
    ("vllm-0.32.0/chat_tools", CALL),
    ("vllm-0.32.0/chat_tools_parallel", CALLS),
    ("vllm-0.32.0/chat_think_stream", THOUGHT),
    ("vllm-0.32.0/chat_tools_stream", CALL),
    ("vllm-0.32.0/err_unknown_model", TEXT),
    ("vllm-0.32.0/completion", STORY),
    ("vllm-0.32.0/completion_noflags", STORY),
    ("vllm-0.32.0/completion_batch", STORY),
    ("vllm-0.32.0/completion_logprobs", STORY),
    ("vllm-0.32.0/completion_stop", STORY),
    ("vllm-0.32.0/completion_stream", STORY),
    ("vllm-0.32.0/vllm_logprobs_tokens_as_ids", UNENDED_THOUGHT),
    ("sglang-0.5.23/chat_plain_noflags", TEXT),
    ("sglang-0.5.23/chat_stream_noflags", TEXT),
    ("sglang-0.5.23/chat_stream_usage", TEXT),
    ("sglang-0.5.23/f_rti_chat", TEXT),
    ("sglang-0.5.23/f_rti_chat_stream", TEXT),
    ("sglang-0.5.23/f_rti_tools", CALL),
    ("sglang-0.5.23/f_rti_lp_chat", TEXT),
    ("sglang-0.5.23/f_rti_completion", STORY),
    ("sglang-0.5.23/f_rti_lp_completion_stream", STORY),
    ("sglang-0.5.23/f_rcti_chat", TEXT),
    ("sglang-0.5.23/f_rcti_chat_stream", TEXT),
    ("sglang-0.5.23/f_sglext_completion", STORY),
    ("sglang-0.5.23/rti_n2", TEXT),
    ("sglang-0.5.23/completion_batch", STORY),
    ("sglang-0.5.23-sglext/chat_tools", CALL),
    ("sglang-0.5.23-sglext/chat_stream", TEXT),
    ("sglang-0.5.23-sglext/chat_tools_stream", CALL),
    ("sglang-0.5.23-sglext/chat_tools_parallel_stream", CALLS),
    ("sglang-0.5.23-sglext/chat_plain_logprobs", TEXT),
    ("sglang-0.5.23-sglext/completion_stream", STORY),
    ("sglang-0.5.9-agentcore/chat_plain_noflags", TEXT),
    ("sglang-0.5.9-agentcore/chat_tools", CALL),
    ("sglang-0.5.9-agentcore/chat_tools_stream", CALL),
    ("sglang-0.5.9-agentcore/chat_stream_usage", TEXT),
    ("sglang-0.5.9-agentcore/chat_stream_logprobs", TEXT),
    ("sglang-0.5.9-agentcore/chat_logprobs_noflags", TEXT),
    ("sglang-0.5.9-agentcore/completion_stream", STORY),
    ("dynamo-1.6.1-scripted/chat_plain_noflags", TEXT),
    ("dynamo-1.6.1-scripted/chat_logprobs_noflags", TEXT),
    ("dynamo-1.6.1-scripted/chat_stream_noflags", TEXT),
    ("dynamo-1.6.1-scripted/chat_n2", TEXT),
    ("dynamo-1.6.1-scripted/chat_n2_stream", TEXT),
    ("dynamo-1.6.1-scripted/completion_noflags", STORY),
    ("dynamo-1.6.1-scripted/completion_batch", STORY),
    ("dynamo-1.6.1-scripted/nv_completion_token_ids", TEXT),
    ("dynamo-1.6.1-scripted/nv_completion_token_ids_stream", TEXT),
    ("dynamo-1.6.1-scripted/nv_prompt_token_ids", TEXT),
    ("dynamo-1.6.1-scripted/nv_prompt_token_ids_stream", TEXT),
    ("dynamo-1.6.1-scripted/nv_worker_id_stream", TEXT),
    ("dynamo-1.6.1-scripted/nv_completion_stream", STORY),
    ("dynamo-1.6.1-scripted/nv_unknown_nvext", TEXT),
    ("dynamo-1.6.1-scripted/nv_bogus_field", TEXT),
    ("dynamo-1.6.1-scripted/err_unknown_field", TEXT),
    ("dynamo-1.6.1-scripted/err_unknown_model", TEXT),
    ("dynamo-1.6.1-scripted/err_max_tokens_zero", TEXT),
    # This recording's worker put things of its own into nvext; the rest is the frontend's.
    ("dynamo-1.6.1-scripted/chat_think_stream", THOUGHT),
    ("dynamo-1.6.1-scripted/chat_tools", CALL),
    ("dynamo-1.6.1-scripted/chat_tools_stream", CALL),
    ("dynamo-1.6.1-scripted/chat_stream_logprobs", TEXT),
    ("dynamo-1.6.1-scripted/completion_logprobs", STORY),
    ("dynamo-1.6.1-scripted/completion_stream", STORY),
]


@pytest.mark.parametrize(("name", "speech"), CASES, ids=[name for name, _ in CASES])
def test_a_recorded_request_is_answered_in_the_recorded_form(name: str, speech: Speech) -> None:
    recorded = RECORDINGS / name
    answer = answered(name, json.loads(Path(f"{recorded}.request.json").read_text()), speech)
    meta = json.loads(Path(f"{recorded}.meta.json").read_text())
    assert answer.status == meta["status"]
    assert answer.content_type == {key.lower(): value for key, value in meta["headers"]}["content-type"]
    assert forms(answer.body) == forms(body_of(Path(f"{recorded}.response.raw").read_bytes()))


def answered(name: str, request: dict[str, Any], speech: Speech) -> Answer:
    engine, version, *variant = name.partition("/")[0].split("-")
    options = {"variant": "agentcore"} if variant == ["agentcore"] else {}
    script = SCRIPTS[engine](model="tiny", version=version, **options)
    endpoint: Endpoint = "chat" if request["path"] == "/v1/chat/completions" else "completions"
    asked = read(endpoint, json.dumps(request["body"]).encode(), {})
    return script.answer(asked, said(asked, [speech]), STAMP)


def forms(body: bytes) -> list[object]:
    """What stands where in an answer; steps of a stream that look alike count once."""
    if not body.startswith(b"data: "):
        return [form(json.loads(body))]
    frames = [frame.removeprefix("data: ") for frame in body.decode().split("\n\n") if frame]
    return [key for key, _ in groupby("[DONE]" if frame == "[DONE]" else form(json.loads(frame)) for frame in frames)]


def form(value: object, key: str = "") -> object:
    match value:
        case dict() if key in ("timing", "engine_data"):
            return key
        case dict() if key == "top_logprobs":
            return "token: number"
        case dict() if key == "nvext":
            # The order of its fields differs between whole answers and chunks, and means nothing.
            return sorted(value)
        case dict():
            return [(name, form(inner, name)) for name, inner in value.items()]
        case list() if key in ("bytes", "text_offset"):
            return key
        case list():
            return ["list", *(shape for shape, _ in groupby(form(item, key) for item in value))]
        case None if key == "bytes":
            return key
        case None | bool():
            return value
        case str() if key == "finish_reason":
            return "ending"
        case None if key in ("finish_reason", "stop_reason", "matched_stop"):
            return value
        case str():
            return "text"
    return "number"


def body_of(response: bytes) -> bytes:
    """The body of a recorded HTTP response, its chunk framing removed."""
    head, _, body = response.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return body
    parts = []
    while body:
        size, _, body = body.partition(b"\r\n")
        parts.append(body[: int(size, 16)])
        body = body[int(size, 16) + 2 :]
    return b"".join(parts)
