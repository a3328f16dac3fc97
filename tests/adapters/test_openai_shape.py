"""A whole body is opened alike, however it is written and whatever stands around its choices."""

from __future__ import annotations

import pytest
from msgspec import Raw

from adapters import vllm
from adapters.answer_shape import WholeAnswer
from adapters.openai_shape import open_answer
from adapters.tokens import ChoiceTokens

CHOICE = b'{"index":0,"message":{"content":"a"},"logprobs":{"content":[{"token":"a"}]}}'


def opened(body: bytes) -> tuple[dict[str, bytes], list[dict[str, bytes]], tuple[str, ...]]:
    answer: WholeAnswer = open_answer(body, 1)
    root = {name: bytes(raw).strip() for name, raw in answer.root.items()}
    choices = [{name: bytes(raw) for name, raw in choice.items()} for choice in answer.choices]
    return root, choices, answer.anomalies


@pytest.mark.parametrize(
    "around",
    [
        b'{"id":"x","choices":[%s],"usage":{"prompt_tokens":1}}',
        b'{"id":"x", "choices": [%s], "usage": null}',
        b'{"id":"x","choices":[%s]}',
        b'{"choices":[%s],"id":"x","prompt_logprobs":[null,{"7":{}}]}',
        b'{"choices":[%s],"id":"a }] in a text"}',
        b'{"id":"\\"choices\\":[","choices":[%s]}',
        b'{"nested":{"choices":[{}]},"id":"x","choices":[%s]}',
        b'{"nested":{"choices":[{"index":7}]},"id":"x","choices" :[%s]}',
        b'{"choices":[{"index":7}],"id":"x","choices":[%s]}',
        b'{"id":"x","choices":[%s ] }',
    ],
)
def test_the_choices_are_those_of_the_root_wherever_they_stand(around: bytes) -> None:
    root, choices, anomalies = opened(around % CHOICE)
    assert choices == [
        {"index": b"0", "message": b'{"content":"a"}', "logprobs": b'{"content":[{"token":"a"}]}'},
    ]
    assert root["choices"] in (b"[%s]" % CHOICE, b"[%s ]" % CHOICE)
    assert root.keys() - {"choices", "usage", "nested", "prompt_logprobs"} == {"id"}
    assert not anomalies


def test_choices_inside_another_member_are_not_the_answers() -> None:
    root, choices, _ = opened(b'{"nested":{"choices":[%s]},"usage":null}' % CHOICE)
    assert not choices
    assert list(root) == ["nested", "usage"]


@pytest.mark.parametrize("choices", [b"7", b'"cut out"', b"[7]", b'[{"index":0},7]', b"{}"])
def test_choices_that_are_no_list_of_objects_are_odd(choices: bytes) -> None:
    root, found, anomalies = opened(b'{"choices":%s,"usage":null}' % choices)
    assert (root["choices"], found) == (choices, [])
    assert anomalies == ("choices is not a list of objects",)


@pytest.mark.parametrize("choices", [b"null", b"[]"])
def test_an_answer_may_have_no_choices(choices: bytes) -> None:
    assert opened(b'{"choices":%s,"usage":null}' % choices) == ({"choices": choices, "usage": b"null"}, [], ())


ENTRY = b'{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[]}'


@pytest.mark.parametrize(
    ("choice", "in_one_pass"),
    [
        (b'{"index":0,"logprobs":{"content":[%s]},"token_ids":[7]}' % ENTRY, True),
        (b'{"index":0,"message":{"content":"\\"logprobs\\":{}]}"},"logprobs":{"content":[%s]}}' % ENTRY, True),
        (b'{"logprobs":7,"index":0,"logprobs":{"content":[%s]}}' % ENTRY, False),
        (b'{"index":0,"logprobs":{"content":[%s],"refusal":null}}' % ENTRY, False),
        (b'{"index":0,"logprobs":{"content":[%s]},"meta":[{"a":[{}]}]}' % ENTRY, False),
        (b'{"index":0,"message":{"logprobs":{"content":[%s]}},"logprobs":null}' % ENTRY, False),
        (b'{"index":0,"message":{"logprobs":{"content":[%s]}},"logprobs":{"content":[%s]}}' % (ENTRY, ENTRY), False),
        (b'{"index":0,"logprobs":{"content":7,"x":[{"a":[{}]}]}}', False),
        (b'{"index":0,"logprobs":{"tokens":["a"],"token_logprobs":[-0.5],"top_logprobs":[{}]},"text":"a"}', True),
        (b'{"index":0,"logprobs":{"content":[%s]}},{"index":1,"logprobs":{"content":[%s]}}' % (ENTRY, ENTRY), False),
        (b'{"index":0,"logprobs":"cut out","x":[{}]}', False),
    ],
)
def test_logprobs_read_on_the_way_are_those_of_the_choice(choice: bytes, in_one_pass: bool) -> None:
    body = b'{"choices":[%s],"usage":null}' % choice
    with_tables = open_answer(body, 1, vllm.SHAPE.tables)
    assert (with_tables.root, with_tables.choices) == (open_answer(body, 1).root, open_answer(body, 1).choices)
    assert bool(with_tables.read) == in_one_pass
    for raw, columns in with_tables.read.values():
        assert raw is with_tables.choices[0]["logprobs"]
        assert columns == vllm.SHAPE.tables["logprobs"].read(raw)


def test_a_value_that_is_no_json_among_the_logprobs_is_mended_as_elsewhere() -> None:
    body = b'{"choices":[{"index":0,"logprobs":{"content":[{"token":"a","logprob":NaN,"top":[{}]}]}}]}'
    answer = open_answer(body, 1, vllm.SHAPE.tables)
    assert answer.anomalies == ("the answer was not strict JSON",)
    assert bytes(answer.choices[0]["logprobs"]) == b'{"content":[{"token":"a","logprob":null,"top":[{}]}]}'


def test_logprobs_that_stand_in_the_place_of_those_that_were_read_are_the_choices() -> None:
    body = b'{"choices":[{"index":0,"logprobs":{"content":[%s]},"token_ids":[7]}],"usage":null}' % ENTRY
    answer = open_answer(body, 1, vllm.SHAPE.tables)
    choice = {**answer.choices[0], "logprobs": Raw(b'{"content":[{"token":"a","logprob":-2.5}]}')}
    for given, logprob in ((answer.choices[0], -0.5), (choice, -2.5)):
        assert ChoiceTokens(vllm.SHAPE, answer.root, given, 0, answer.read).read().logprobs == (logprob,)
