"""What an agent is given of a chunk and of a whole answer: its own, to the letter, and nothing that was ours to ask."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.fold import Fold
from adapters.openai_shape import Shape, open_answer, open_chunk
from adapters.places import Place, Source
from adapters.plan import Plan, Strip
from adapters.read import read_answer
from adapters.strip import Stripper
from tests.adapters.cases import bare_plan

IDS = Strip(root=frozenset({"prompt_token_ids"}), choice=frozenset({"token_ids"}), nulled=frozenset({"logprobs"}))
NVEXT = Shape(
    sources=(Source(Place("root", ("nvext", "completion_token_ids"))),),
    prompt=(Place("root", ("nvext", "prompt_token_ids")),),
)
SGLEXT = Shape(
    sources=(Source(Place("root", ("sglext", "output_ids"), by_choice=True)),),
    prompt=(Place("root", ("sglext", "input_ids")),),
)
ON_CHOICE = Shape(
    sources=(Source(Place("choice", ("response_token_ids",))),), prompt=(Place("choice", ("prompt_token_ids",)),)
)


def plan_with(strip: Strip, *, inject: bool = False, endpoint: str = "chat", **body: Any) -> Plan:
    return replace(bare_plan("vllm", body, endpoint=endpoint), strip=strip, inject_token_ids=inject)


def of_chunk(
    chunk: str, strip: Strip, shape: Shape | None = None, *, inject: bool = False, endpoint: str = "chat"
) -> str:
    stripper = Stripper(plan_with(strip, inject=inject, endpoint=endpoint), shape or Shape())
    return stripper.chunk(open_chunk(chunk.encode(), 1), chunk.encode()).decode()


def of_whole(
    answer: str, strip: Strip, shape: Shape | None = None, *, inject: bool = False, endpoint: str = "chat", **body: Any
) -> str:
    plan = plan_with(strip, inject=inject, endpoint=endpoint, **body)
    opened = open_answer(answer.encode(), plan.request.expected_choices)
    shape = shape or Shape()
    return Stripper(plan, shape).whole(opened, read_answer(opened, plan, shape)).decode()


@pytest.mark.parametrize(
    ("chunk", "kept"),
    [
        # White space and digits stay as the engine wrote them.
        (
            '{"a": 1.0,"choices":[{"index":0,"delta":{"content" : "x"},"token_ids":[7]}],"b":1e5}',
            '{"a": 1.0,"choices":[{"index":0,"delta":{"content" : "x"}}],"b":1e5}',
        ),
        (
            '{"choices" : [{"index":0,"delta":{"content":"x"},"token_ids":[7]}]}',
            '{"choices":[{"index":0,"delta":{"content":"x"}}]}',
        ),
        (
            '{"choices":[{"index":0,"delta":{"role":"assistant"}}],"prompt_token_ids":[1]}',
            '{"choices":[{"index":0,"delta":{"role":"assistant"}}]}',
        ),
        (
            '{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[]}}]}',
            '{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":null}]}',
        ),
        # Only for our sake.
        ('{"id":"c","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":null,"token_ids":[7]}]}', ""),
        ('{"choices":[{"index":0,"delta":{"content":null,"role":null},"token_ids":[7],"finish_reason":null}]}', ""),
        ('{"choices":[{"index":0,"delta":{},"logprobs":{"content":[{"logprob":-1.0}]},"finish_reason":null}]}', ""),
        # Not only for our sake.
        (
            '{"choices":[{"index":0,"delta":{},"finish_reason":"stop","token_ids":[7]}]}',
            '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
        ),
        (
            '{"choices":[{"index":0,"delta":{"content":""},"token_ids":[7]}]}',
            '{"choices":[{"index":0,"delta":{"content":""}}]}',
        ),
        (
            '{"choices":[{"index":0,"delta":{},"finish_reason":null,"x":1,"token_ids":[7]}]}',
            '{"choices":[{"index":0,"delta":{},"finish_reason":null,"x":1}]}',
        ),
        ('{"choices":[{"index":0,"text":"","token_ids":[7]}]}', '{"choices":[{"index":0,"text":""}]}'),
        ('{"kv":1,"choices":[{"index":0,"delta":{},"token_ids":[7]}]}', '{"kv":1,"choices":[]}'),
        # As the engine would have sent it without being asked.
        (
            '{"choices":[{"index":0,"delta":{},"finish_reason":null}]}',
            '{"choices":[{"index":0,"delta":{},"finish_reason":null}]}',
        ),
        ('{"choices":[{"index":0,"delta":{},"token_ids":null}]}', '{"choices":[{"index":0,"delta":{}}]}'),
        ('{"choices":[]}', '{"choices":[]}'),
        ('{"x":1}', '{"x":1}'),
        ('{"choices":5}', '{"choices":5}'),
    ],
)
def test_a_chunk_loses_what_our_flags_brought(chunk: str, kept: str) -> None:
    assert of_chunk(chunk, IDS) == kept


def test_nothing_to_take_out_leaves_the_bytes() -> None:
    chunk = ' { "choices" : [ {"index":0, "delta" : {} , "token_ids":[7]} ] } '
    assert of_chunk(chunk, Strip()) == chunk


def test_of_several_choices_only_those_that_say_nothing_go() -> None:
    chunk = '{"choices":[{"index":0,"delta":{},"token_ids":[7]},{"index":1,"delta":{"content":"x"},"token_ids":[8]}]}'
    assert of_chunk(chunk, IDS) == '{"choices":[{"index":1,"delta":{"content":"x"}}]}'


@pytest.mark.parametrize(
    ("chunk", "kept"),
    [
        ('{"choices":[],"usage":{"prompt_tokens":1}}', ""),
        ('{"id":"c","choices":[],"usage":{"prompt_tokens":1},"system_fingerprint":"f"}', ""),
        ('{"choices":[],"usage":{"prompt_tokens":1},"metrics":{"a":1}}', '{"choices":[],"metrics":{"a":1}}'),
        (
            '{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":1}}',
            '{"choices":[{"index":0,"delta":{"content":"x"}}]}',
        ),
    ],
)
def test_usage_that_was_not_asked_for_goes_with_the_chunk_that_brought_nothing_else(chunk: str, kept: str) -> None:
    assert of_chunk(chunk, Strip(usage=True)) == kept


@pytest.mark.parametrize(
    ("chunk", "kept"),
    [
        (
            '{"choices":[{"index":0,"delta":{"content":"x"}}],"nvext":{"ids":[1],"worker":5}}',
            '{"choices":[{"index":0,"delta":{"content":"x"}}],"nvext":{"worker":5}}',
        ),
        (
            '{"choices":[{"index":0,"delta":{"content":"x"}}],"nvext":{"ids":[1],"worker":null}}',
            '{"choices":[{"index":0,"delta":{"content":"x"}}]}',
        ),
        (
            '{"choices":[{"index":0,"delta":{"content":"x"}}],"nvext":{"worker": 5}}',
            '{"choices":[{"index":0,"delta":{"content":"x"}}],"nvext":{"worker": 5}}',
        ),
        ('{"choices":[],"nvext":{"ids":[1]}}', ""),
    ],
)
def test_an_object_loses_the_members_that_we_asked_for(chunk: str, kept: str) -> None:
    assert of_chunk(chunk, Strip(nested=(("nvext", frozenset({"ids"})),))) == kept


def test_reasoning_goes_with_the_chunks_that_are_nothing_else() -> None:
    strip = Strip(delta=frozenset({"reasoning", "reasoning_content"}))
    assert of_chunk('{"choices":[{"index":0,"delta":{"reasoning":"x"},"finish_reason":null}]}', strip) == ""
    assert (
        of_chunk('{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":null,"content":""}}]}', strip)
        == '{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}'
    )
    assert (
        of_whole('{"choices":[{"index":0,"message":{"content":"a","reasoning":"x"}}]}', strip)
        == '{"choices":[{"index":0,"message":{"content":"a"}}]}'
    )


def test_top_logprobs_that_only_we_asked_for_are_empty_and_the_rest_is_untouched() -> None:
    entry = '{"token":"a","logprob":-0.00006937739817658439,"top_logprobs":[{"token":"a"}]}'
    chunk = '{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[%s],"refusal":null}}]}'
    assert of_chunk(chunk % entry, Strip(top_logprobs=True)) == chunk % (
        '{"token":"a","logprob":-0.00006937739817658439,"top_logprobs":[]}'
    )


class TestPuttingIdsIn:
    """`return_token_ids` from an engine with other places: they go to vLLM's."""

    def test_ids_at_the_root_of_a_chunk(self) -> None:
        strip = Strip(nested=(("nvext", frozenset({"completion_token_ids", "prompt_token_ids"})),))
        told = '"nvext":{"completion_token_ids":[7,8],"prompt_token_ids":[1]}'
        chunk = '{"choices":[{"index":0,"delta":{"content":"x"}}],' + told + "}"
        assert json.loads(of_chunk(chunk, strip, NVEXT, inject=True)) == {
            "choices": [{"index": 0, "delta": {"content": "x"}, "token_ids": [7, 8]}],
            "prompt_token_ids": [1],
        }

    def test_ids_that_come_once_at_the_end_for_all_choices(self) -> None:
        strip = Strip(root=frozenset({"sglext"}))
        chunk = '{"id":"c","choices":[],"sglext":{"input_ids":[1],"output_ids":[[7],[8,9]]}}'
        told = json.loads(of_chunk(chunk, strip, SGLEXT, inject=True))
        assert told["prompt_token_ids"] == [1]
        assert [(choice["index"], choice["token_ids"]) for choice in told["choices"]] == [(0, [7]), (1, [8, 9])]
        assert all(choice["delta"] == {} and choice["finish_reason"] is None for choice in told["choices"])

    def test_completions_have_both_kinds_on_the_choice(self) -> None:
        strip = Strip(choice=frozenset({"response_token_ids", "prompt_token_ids"}))
        chunk = '{"choices":[{"index":0,"text":"x","response_token_ids":[7],"prompt_token_ids":[1]}]}'
        assert json.loads(of_chunk(chunk, strip, ON_CHOICE, inject=True, endpoint="completions")) == {
            "choices": [{"index": 0, "text": "x", "token_ids": [7], "prompt_token_ids": [1]}]
        }
        told = json.loads(of_whole(chunk, strip, ON_CHOICE, inject=True, endpoint="completions"))
        assert told == {"choices": [{"index": 0, "text": "x", "token_ids": [7], "prompt_token_ids": [1]}]}

    def test_a_whole_chat_answer(self) -> None:
        strip = Strip(choice=frozenset({"response_token_ids", "prompt_token_ids"}))
        answer = '{"choices":[{"index":0,"message":{"content":"x"},"response_token_ids":[7],"prompt_token_ids":[1]}]}'
        assert json.loads(of_whole(answer, strip, ON_CHOICE, inject=True)) == {
            "choices": [{"index": 0, "message": {"content": "x"}, "token_ids": [7]}],
            "prompt_token_ids": [1],
        }

    def test_a_chunk_without_ids_is_left_alone(self) -> None:
        chunk = '{"choices":[{"index":0,"delta":{"content":"x"}}]}'
        assert of_chunk(chunk, Strip(), NVEXT, inject=True) == chunk


def test_a_folded_stream_is_a_whole_answer() -> None:
    plan = plan_with(IDS)
    fold = Fold(Shape().rules, 1)
    for chunk in (
        b'{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"token_ids":[7]}]}',
        b'{"id":"c","choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"stop","token_ids":[8]}]}',
    ):
        fold.add(open_chunk(chunk, 1))
    answer = fold.answer()
    client = Stripper(plan, Shape()).whole(answer, read_answer(answer, plan, Shape()))
    assert client == (
        b'{"id":"c","object":"chat.completion",'
        b'"choices":[{"index":0,"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}]}'
    )


NAMES = st.sampled_from(
    ["id", "index", "delta", "token_ids", "logprobs", "finish_reason", "prompt_token_ids", "x", 'é\n"', "content"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.lists(st.dictionaries(NAMES, VALUES, max_size=5), max_size=3))
def test_whatever_a_chunk_holds_the_rest_of_it_is_the_same(root: dict[str, Any], choices: list[dict[str, Any]]) -> None:
    choices = [{**choice, "index": index} for index, choice in enumerate(choices)]
    chunk = json.dumps({**root, "choices": choices}, ensure_ascii=False)
    kept = of_chunk(chunk, IDS)
    if not kept:
        return
    told = json.loads(kept)
    assert {key: value for key, value in told.items() if key != "choices"} == {
        key: value for key, value in root.items() if key != "prompt_token_ids"
    }
    wanted = {
        choice["index"]: {
            **{k: v for k, v in choice.items() if k != "token_ids"},
            **({"logprobs": None} if "logprobs" in choice else {}),
        }
        for choice in choices
    }
    for choice in told["choices"]:
        assert choice == wanted[choice["index"]]
