"""Chunks that are read many at once say what they say one by one, whatever stands in them or between them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.answer import AnswerReader, Outcome
from adapters.engines import ENGINES, adapter_for
from adapters.plan import Plan, Strip
from adapters.schema import Error
from tests.adapters.cases import bare_plan, canonical, examples, planned, recordings

RECORDED = {
    "vllm": ("vllm-0.32.0",),
    "sglang": ("sglang-0.5.23", "sglang-0.5.23-sglext", "sglang-0.5.9-agentcore"),
    "dynamo": ("dynamo-1.6.1-scripted", "dynamo-1.6.1-mocker-sglang"),
}
STREAMS = [
    (engine, f"{folder}/{one.name}", one.request, one.body)
    for engine, folders in RECORDED.items()
    for folder in folders
    for one in recordings(folder)
    if one.streamed
] + [
    (engine, example.file, {**example.flags, "stream": True}, example.body)
    for engine in ENGINES
    if engine in RECORDED or engine in ("llamacpp", "lmdeploy", "mlx_lm", "trtllm")
    for example in examples(engine)
    if example.streamed
]
HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "stream": True}

Told = tuple[bytes, bytes, Error | None, bool, Outcome]
"""What goes to the agent at once and what at the end, the error, whether tokens came, and what is recorded."""


def told(plan: Plan, pieces: list[bytes], *, alike: bool) -> Told:
    """All that comes of a stream, with chunks read many at once or one by one."""
    reader = AnswerReader(plan, typed=not alike)
    passed, held, error, tokens = b"", b"", None, False
    for data in pieces:
        for piece in reader.feed(data):
            error = error or piece.error
            tokens = tokens or piece.tokens
            if held or piece.ends:
                held += piece.client
            else:
                passed += piece.client
    outcome = reader.finish()
    return passed, held + outcome.client, error, tokens, outcome


def cut(body: bytes, *at: int) -> list[bytes]:
    ends = sorted({position for position in at if 0 < position < len(body)})
    return [body[start:end] for start, end in zip((0, *ends), (*ends, len(body)), strict=True)]


def ways_to_cut(body: bytes) -> list[list[bytes]]:
    events = [event + b"\n\n" for event in body.split(b"\n\n") if event]
    return [[body], cut(body, *range(0, len(body), 997)), events, [b"".join(events[:5]), *events[5:]]]


@pytest.mark.parametrize(
    ("engine", "request_", "body"), [(e, r, b) for e, _, r, b in STREAMS], ids=[s[1] for s in STREAMS]
)
def test_every_recorded_stream_reads_the_same(engine: str, request_: Any, body: bytes) -> None:
    request = request_ if isinstance(request_, dict) else {}
    plain = {key: value for key, value in request.items() if key in ("messages", "prompt", "n", "stream", "logprobs")}
    endpoint = "completions" if "prompt" in request else "chat"
    server = adapter_for(engine).server()
    plans = [bare_plan(engine, request, endpoint=endpoint)]
    plans.append(adapter_for(engine).plan(canonical({**plain, "stream": True}, endpoint), server, "stream"))
    plans.append(bare_plan(engine, request, endpoint=endpoint, mode="whole"))
    for plan in plans:
        expected = told(plan, [body], alike=False)
        for pieces in ways_to_cut(body):
            assert told(plan, pieces, alike=True) == expected


# From here on: streams that no engine has sent.

words = st.text(max_size=8) | st.sampled_from(
    [" the", '"', "\\", "\u2028", "null", "],[", '},"x":', "\x7f", "\U0001f600"]
)
ids = st.lists(st.integers(0, 200_000), max_size=3)
logprobs = st.lists(
    st.fixed_dictionaries(
        {"token": words, "logprob": st.floats(-20, 0), "bytes": ids, "top_logprobs": st.just([])}, optional={"x": words}
    ),
    max_size=2,
)
arguments = st.lists(
    st.fixed_dictionaries(
        {"index": st.integers(0, 1)},
        optional={"id": words, "function": st.fixed_dictionaries({}, optional={"name": words, "arguments": words})},
    ),
    max_size=2,
)
odd = st.none() | st.booleans() | st.integers() | words | st.lists(st.none(), max_size=1) | st.just({})
values = {
    "content": words,
    "reasoning_content": words,
    "tool_calls": arguments,
    "role": st.just("assistant"),
    "token_ids": ids,
    "logprobs": st.fixed_dictionaries({"content": logprobs}, optional={"refusal": logprobs, "new": ids}),
    "prompt_token_ids": ids,
    "stop_reason": words,
    "finish_reason": st.just("stop"),
    "unknown": words,
    "id": words,
    "created": st.integers(0, 3),
    "system_fingerprint": words,
    "usage": st.fixed_dictionaries({"prompt_tokens": st.integers(0, 9), "completion_tokens": st.integers(0, 9)}),
    "nvext": st.fixed_dictionaries({}, optional={"completion_token_ids": ids, "worker": words}),
}
IN_DELTA = ("content", "reasoning_content", "tool_calls", "role")
IN_CHOICE = ("token_ids", "logprobs", "prompt_token_ids", "stop_reason", "finish_reason", "unknown")
IN_ROOT = ("id", "created", "system_fingerprint", "usage", "nvext")


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, list[str]]:
    """The names that chunks alike have, in their order."""
    return {
        "root": draw(st.lists(st.sampled_from(IN_ROOT), unique=True, max_size=3)),
        "choice": draw(st.lists(st.sampled_from(IN_CHOICE), unique=True, max_size=4)),
        "delta": draw(st.lists(st.sampled_from(IN_DELTA), unique=True, min_size=1, max_size=3)),
    }


@st.composite
def members(draw: st.DrawFn, names: list[str], fixed: dict[str, Any]) -> dict[str, Any]:
    told = {}
    for name in names:
        rare = draw(st.integers(0, 19))
        if name in fixed and rare:
            told[name] = fixed[name]
        else:
            told[name] = None if name == "finish_reason" and rare else draw(values[name] if rare else odd)
    return told


@st.composite
def chunks(draw: st.DrawFn, layout: dict[str, list[str]], fixed: dict[str, Any]) -> bytes:
    delta = draw(members(layout["delta"], {}))
    choice = {"index": draw(st.integers(0, 1)), "delta": delta, **draw(members(layout["choice"], fixed))}
    root = draw(members(layout["root"], fixed))
    chunk = draw(st.sampled_from([{**root, "choices": [choice]}, {"choices": [choice], **root}]))
    spaces = (", ", ": ") if draw(st.integers(0, 19)) == 0 else (",", ":")
    text = json.dumps(chunk, ensure_ascii=draw(st.booleans()), separators=spaces)
    if draw(st.integers(0, 29)) == 0:
        text = text.replace('"delta":', '"delta":{"content":"twice"},"delta":')
    return text.encode(errors="surrogatepass")


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Runs of chunks alike, with others in their midst."""
    events: list[bytes] = []
    for _ in range(draw(st.integers(1, 3))):
        layout = draw(layouts())
        fixed = {name: draw(values[name]) for name in (*IN_ROOT, "prompt_token_ids", "unknown")}
        events += [b"data: " + chunk for chunk in draw(st.lists(chunks(layout, fixed), max_size=12))]
        events += draw(st.lists(st.sampled_from(OTHERS), max_size=1))
    return [
        event + draw(st.sampled_from([b"\n\n", b"\n\n", b"\n\n", b"\n\n", b"\r\n\r\n", b"\n\n\n"])) for event in events
    ]


OTHERS = [
    b": keep-alive",
    b"data: [DONE]",
    b"data: {oops",
    b"data: 5",
    b'data: {"choices":[]}',
    b'data: {"choices":[{"index":0,"delta":{"content":"\\ud800"}}]}',
    b'data: {"choices":[{"index":0,"delta":{"content":NaN}}]}',
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
    b'data: {"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}',
    b'data: {"choices":[{"index":0,\ndata: "delta":{"content":"on two lines"}}]}',
    b'data: {"error":{"message":"it broke"}}',
    b"event: metrics\ndata: 1",
    b'id: 1\ndata: {"choices":[{"index":0,"delta":{"content":"a"}}]}',
]
STRIPS = Strip(
    root=frozenset({"id"}),
    nested=(("nvext", frozenset({"worker"})), ("usage", frozenset({"prompt_tokens"}))),
    choice=frozenset({"token_ids"}),
    nulled=frozenset({"logprobs"}),
    delta=frozenset({"reasoning_content"}),
)
ASKED: list[dict[str, Any]] = [{}, {"n": 2}, {"return_token_ids": True}, {"stream_options": {"include_usage": True}}]
PLANS = [
    *(bare_plan(engine, {**HELLO, "n": 2}) for engine in ("vllm", "dynamo")),
    *(
        planned({**HELLO, **asked}, adapter_for(engine).server())[0]
        for engine in ("vllm", "sglang", "dynamo")
        for asked in ASKED
    ),
    Plan("streamed", "", b"{}", adapter_for("vllm").server(), canonical(HELLO), STRIPS),
]


@given(st.sampled_from(PLANS), streams(), st.lists(st.integers(0, 3000), max_size=4))
def test_every_other_stream_reads_the_same(plan: Plan, events: list[bytes], at: list[int]) -> None:
    body = b"".join(events)
    expected = told(plan, [body], alike=False)
    for pieces in ([body], cut(body, *at), events):
        assert told(plan, pieces, alike=True) == expected
