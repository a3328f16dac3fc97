"""What the reader of answers fills in: usage that the server left out, and ids at vLLM's places."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from adapters.answer import DONE, AnswerReader
from adapters.engines import adapter_for
from adapters.plan import Plan
from adapters.request import CanonicalRequest
from adapters.retokenize import retokenize
from adapters.schema import Choice
from adapters.token_ids import TokenIds
from tests.adapters.cases import bare_plan, chunks_of, client_bytes, planned
from tests.adapters.small_stream import COUNTED, FIRST, HELLO, LAST, ROLE, USAGE, plan_for, read, sse


class TestUsage:
    """A stream whose server gives none, and whose client asked."""

    ASKED: ClassVar[dict[str, Any]] = {"stream_options": {"include_usage": True}}

    def test_it_is_counted_from_the_engines_ids_and_goes_before_the_end(self) -> None:
        pieces, outcome = read(ROLE, FIRST, LAST, DONE, plan=plan_for(**self.ASKED))
        assert not any(b"DONE" in piece.client for piece in pieces)
        assert chunks_of(outcome.client) == [
            {"id": "c", "object": "chat.completion.chunk", "choices": [], "usage": USAGE},
            "[DONE]",
        ]
        assert outcome.completion.usage_estimated
        assert outcome.verdict.fidelity == "partial"

    def test_a_tokenizer_counts_where_there_are_no_ids(self) -> None:
        class Words:
            def prompt(self, request: CanonicalRequest, index: int) -> TokenIds:
                return TokenIds(range(5))

            def reply(self, request: CanonicalRequest, choice: Choice) -> TokenIds:
                return TokenIds(range(len((choice.text or "").split()) + len(choice.tool_calls or ())))

        call = {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "f", "arguments": "{}"}}]}
        chunks = [
            {"choices": [{"index": 0, "delta": delta}]} for delta in ({"content": "a b"}, {"content": " c"}, call)
        ]
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
        plan = plan_for("openai", None, **self.ASKED)
        reader = AnswerReader(plan)
        reader.feed(sse(*chunks, end, DONE))
        told = reader.finish()
        outcome = reader.retold(told, retokenize(told.completion, plan.request, Words()))
        usage, done = chunks_of(outcome.client)
        assert usage["usage"] == {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9}
        assert done == "[DONE]"
        assert outcome.completion.usage_estimated
        assert outcome.verdict.fidelity == "retokenized"

    def test_a_tokenizers_count_goes_into_a_whole_answer_and_its_ids_do_not(self) -> None:
        class Letters:
            def prompt(self, request: CanonicalRequest, index: int) -> TokenIds:
                return TokenIds([1, 2])

            def reply(self, request: CanonicalRequest, choice: Choice) -> TokenIds:
                return TokenIds(map(ord, choice.text or ""))

        plan = planned({**HELLO, "stream": False, "return_token_ids": True}, adapter_for("openai").server())[0]
        reader = AnswerReader(plan)
        told = reader.whole(b'{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}],"x":1.50}')
        outcome = reader.retold(told, retokenize(told.completion, plan.request, Letters()))
        client = json.loads(outcome.client)
        assert client["usage"] == {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
        assert client["choices"][0]["token_ids"] is None
        assert client["prompt_token_ids"] is None
        assert b"1.50" in outcome.client
        assert outcome.completion.choices[0].token_ids == TokenIds([97])

    def test_nothing_is_made_up_where_nothing_can_be_counted(self) -> None:
        pieces, outcome = read(FIRST, LAST, DONE, plan=plan_for("openai", None, **self.ASKED))
        assert outcome.client == DONE
        assert outcome.completion.usage is None
        assert b"usage" not in client_bytes(pieces, outcome)

    def test_the_servers_own_is_left_alone_wherever_it_stands(self) -> None:
        ending = {**LAST, "usage": USAGE}
        pieces, outcome = read(FIRST, ending, DONE, plan=plan_for("openai", None, **self.ASKED))
        assert outcome.client == b""
        assert chunks_of(client_bytes(pieces, outcome))[1]["usage"] == USAGE
        assert not outcome.completion.usage_estimated

    def test_an_agent_that_did_not_ask_sees_none(self) -> None:
        pieces, outcome = read(ROLE, {**FIRST, "usage": USAGE}, LAST, COUNTED, DONE)
        assert b"usage" not in client_bytes(pieces, outcome)
        assert outcome.completion.usage is not None


class TestTokenIdsAsked:
    """`return_token_ids: true` means vLLM's places from every engine."""

    def test_a_whole_answer_has_them_where_vllm_has_them(self) -> None:
        plan = bare_plan("vllm", {**HELLO, "return_token_ids": True}, mode="whole")
        plan = Plan("whole", "", b"{}", plan.server, plan.request, inject_token_ids=True)
        body = {"choices": [{"index": 0, "message": {"content": "a"}, "token_ids": [7]}], "prompt_token_ids": [1]}
        client = json.loads(AnswerReader(plan).whole(json.dumps(body).encode()).client)
        assert client["prompt_token_ids"] == [1]
        assert client["choices"][0]["token_ids"] == [7]

    def test_what_no_engine_told_is_null(self) -> None:
        plan = planned({**HELLO, "stream": False, "return_token_ids": True}, adapter_for("openai").server())[0]
        assert plan.inject_token_ids
        assert b"return_token_ids" not in plan.body
        client = json.loads(AnswerReader(plan).whole(b'{"choices":[{"index":0,"message":{"content":"a"}}]}').client)
        assert client["prompt_token_ids"] is None
        assert client["choices"][0]["token_ids"] is None
