"""The chat dialect: what it reads of a request, and a whole answer as the stream that was asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.lib.streaming.chat import ChatCompletionStreamState
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from adapters.answer import Outcome
from adapters.schema import Completion, Error, Verdict
from gateway.dialects.chat import ChatDialect
from gateway.dialects.dialect import BadRequest
from gateway.dialects.openai_stream import without_null_details

CHAT = ChatDialect()


def read(**fields: Any) -> Any:
    return CHAT.read(json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}).encode())


def streamed(answer: dict[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """The chunks that an agent gets for a whole answer, their end checked."""
    verdict = Verdict("none", None, "none", None)
    outcome = Outcome(Completion(), verdict, json.dumps(answer).encode(), finished=True)
    *events, done, rest = CHAT.responder(read(stream=True, **fields), "t").streamed(outcome).split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    return [json.loads(event.removeprefix(b"data: ")) for event in events]


def answer(*choices: dict[str, Any], **root: Any) -> dict[str, Any]:
    return {"id": "c1", "object": "chat.completion", "created": 7, "model": "m", "choices": list(choices), **root}


def test_the_fields_that_are_read_are_typed() -> None:
    request = read(
        stream=True,
        n=3,
        logprobs=True,
        top_logprobs=2,
        return_token_ids=True,
        tools=[{"type": "function"}],
        stream_options={"include_usage": True},
    )
    assert (request.endpoint, request.model, request.stream, request.include_usage) == ("chat", "m", True, True)
    assert (request.n, request.expected_choices, request.top_logprobs) == (3, 3, 2)
    assert (request.logprobs, request.return_token_ids, request.tools) == (True, True, True)


def test_null_means_not_asked() -> None:
    request = read(stream=None, n=None, logprobs=None, tools=None, stream_options=None)
    assert (request.stream, request.n, request.logprobs, request.tools) == (False, 1, False, False)


def test_tools_that_may_not_be_called_are_no_tools() -> None:
    assert not read(tools=[{"type": "function"}], tool_choice="none").tools
    assert not read(tools=[]).tools
    assert not CHAT.read(b'{"messages":[],"tools": [ \n ]}').tools


def test_fields_that_nobody_reads_keep_their_own_text() -> None:
    body = b'{"model":"m","messages":[],"seed":1.50e+3,"guided":{"a": [1,  2.0]}}'
    fields = CHAT.read(body).fields
    assert bytes(fields["seed"]) == b"1.50e+3"
    assert bytes(fields["guided"]) == b'{"a": [1,  2.0]}'


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "empty"),
        (b"{", "not valid JSON"),
        (b"[1, 2]", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"{}", "`messages` is missing"),
        (b'{"messages": null}', "`messages` is missing"),
        (b'{"messages": "hi"}', "`messages` must be a list"),
        (b'{"messages": [], "n": 0}', "`n` must be a positive integer, not 0"),
        (b'{"messages": [], "n": "two"}', "`n` must be a positive integer"),
        (b'{"messages": [], "stream": "yes"}', "`stream` must be true or false"),
        (b'{"messages": [], "model": 7}', "`model` must be a string"),
        (b'{"messages": [], "stream_options": 7}', "`stream_options` must be an object"),
        (b'{"messages": [], "tools": {}}', "`tools` must be a list"),
        (b'\xff\xfe{"messages": []}', "not valid JSON"),
        (b'{"a":' + b"[" * 100_000, "not valid JSON"),
    ],
)
def test_a_body_that_is_no_chat_request_is_refused_with_a_sentence(body: bytes, says: str) -> None:
    with pytest.raises(BadRequest) as caught:
        CHAT.read(body)
    assert says in caught.value.error.message
    assert caught.value.error.type == "invalid_request_error"


def test_an_error_has_all_four_keys_that_clients_look_for() -> None:
    body = json.loads(CHAT.error_body(404, Error("No such model.", code="model_not_found", param="model")))
    assert body == {
        "error": {
            "message": "No such model.",
            "type": "not_found_error",
            "param": "model",
            "code": "model_not_found",
        }
    }


def test_an_error_inside_a_stream_is_no_clean_end() -> None:
    event = CHAT.responder(read(stream=True), "t").error_event(Error("The backend broke off."))
    assert json.loads(event.removeprefix(b"data: "))["error"]["message"] == "The backend broke off."
    assert b"[DONE]" not in event


def test_a_whole_answer_streams_as_role_text_finish() -> None:
    message = {"role": "assistant", "content": "Hello.", "reasoning": "Greet.", "refusal": None, "tool_calls": []}
    chunks = streamed(answer({"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}))
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Hello.", "reasoning": "Greet."},
        {},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "stop"]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}


def test_the_openai_sdk_folds_the_stream_back_into_the_whole_answer() -> None:
    calls = [
        {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "call_2", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]
    entry = {"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}
    whole = answer(
        {
            "index": 0,
            "message": {"role": "assistant", "content": None, "tool_calls": calls},
            "logprobs": {"content": [entry, entry], "refusal": None},
            "finish_reason": "tool_calls",
        },
        {
            "index": 1,
            "message": {"role": "assistant", "content": "Hi."},
            "logprobs": {"content": [entry], "refusal": None},
            "finish_reason": "stop",
        },
        usage={"prompt_tokens": 3, "completion_tokens": 9, "total_tokens": 12},
    )
    state = ChatCompletionStreamState()
    for chunk in streamed(whole, stream_options={"include_usage": True}):
        state.handle_chunk(ChatCompletionChunk.model_validate(chunk))
    folded, expected = state.get_final_completion(), ChatCompletion.model_validate(whole)
    assert folded.usage == expected.usage
    for ours, theirs in zip(folded.choices, expected.choices, strict=True):
        assert (ours.finish_reason, ours.message.content) == (theirs.finish_reason, theirs.message.content)
        assert ours.logprobs is not None
        assert ours.logprobs.content == (theirs.logprobs.content if theirs.logprobs else None)
        ids = [(call.id, call.function.name, call.function.arguments) for call in ours.message.tool_calls or []]
        assert ids == [
            (call.id, call.function.name, call.function.arguments) for call in theirs.message.tool_calls or []
        ]


def test_usage_comes_only_if_it_was_asked_for() -> None:
    whole = answer(
        {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"},
        usage={"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
    )
    assert not any("usage" in chunk for chunk in streamed(whole))
    last = streamed(whole, stream_options={"include_usage": True})[-1]
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 4)


def test_ids_that_the_agent_asked_for_stand_where_vllm_streams_them() -> None:
    whole = answer(
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi."},
            "finish_reason": "stop",
            "token_ids": [5, 6],
        },
        prompt_token_ids=[1, 2],
    )
    chunks = streamed(whole, return_token_ids=True)
    assert chunks[0]["prompt_token_ids"] == [1, 2]
    assert [chunk["choices"][0].get("token_ids") for chunk in chunks] == [None, None, [5, 6]]


def test_numbers_keep_their_text() -> None:
    body = (
        b'{"id":"c","created":1.70e9,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"x"},'
        b'"logprobs":{"content":[{"token":"x","logprob":-0.10000000000000000555}]},"finish_reason":"stop"}]}'
    )
    outcome = Outcome(Completion(), Verdict("none", None, "none", None), body, finished=True)
    stream = CHAT.responder(read(stream=True), "t").streamed(outcome)
    assert b"-0.10000000000000000555" in stream
    assert b"1.70e9" in stream


@pytest.mark.parametrize(
    ("told", "given"),
    [
        (
            b'{"usage":{"prompt_tokens":3,"prompt_tokens_details":null,"total_tokens":5}}',
            b'{"usage":{"prompt_tokens":3,"total_tokens":5}}',
        ),
        (
            b'{"usage": {"prompt_tokens": 3, "completion_tokens_details" : null,\n "prompt_tokens_details": null}}',
            b'{"usage": {"prompt_tokens": 3}}',
        ),
        (
            b'{"usage":{ "prompt_tokens_details":null,"completion_tokens_details":null,"prompt_tokens":3}}',
            b'{"usage":{"prompt_tokens":3}}',
        ),
        (b'{"usage":{"prompt_tokens_details":null}}', b'{"usage":{}}'),
        (b'{"usage":{"prompt_tokens":3,"prompt_tokens_details":{"cached_tokens":null}}}', None),
        # A text that looks like it.
        (rb'{"content":"{\"prompt_tokens_details\":null,\"prompt_tokens_details\":null}"}', None),
    ],
)
def test_details_of_usage_are_an_object_or_absent(told: bytes, given: bytes | None) -> None:
    """docs/promises.md C2: a null in their place breaks clients."""
    assert without_null_details(told) == (told if given is None else given)
