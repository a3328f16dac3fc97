"""Chunks alike, read by their values: which blocks are of a mould, and what their values are."""

from __future__ import annotations

import pytest
from msgspec import Raw

from adapters.answer_shape import Chunk
from adapters.mould import Form, Mould
from adapters.openai_shape import open_chunk

FIXED = [b'{"text":', b',"ids":', b"}"]


def opened(data: bytes) -> Chunk:
    return open_chunk(data, 1)


MOULD = Mould(b"data: ", FIXED, (), Form([b"data: {", b"}\n\n"], [0]), opened)


def values_of(*blocks: bytes) -> list[bytes] | None:
    values = MOULD.values(MOULD.parts(blocks, 0, len(blocks)))
    return None if values is None else [bytes(value) for value in values]


def test_values_are_in_the_order_of_the_chunks() -> None:
    blocks = (b'data: {"text":"a","ids":[1, 2]}', b'data: {"text":",\\n","ids":{"b":null}}')
    assert values_of(*blocks) == [b'"a"', b"[1, 2]", rb'",\n"', b'{"b":null}']


@pytest.mark.parametrize(
    "block",
    [
        b'data: {"text":"a","ids":null}',
        b'data: {"text":null,"ids":[1]}',
        b'data: {"text":"a","ids":[1],"more":1}',
        b'data: {"text":"a","ids":}',
        b'data: {"text":"a","ids":[1}',
        b'data: {"text":"a" ,"ids":[1]}',
        b'data: {"text":"a","ids": [1]}',
        b'data: {"text":[1,"ids":2]}',
        b'data: {"text":"a","ids":[1,\n2]}',
        b'data: {"text":"a","ids":NaN}',
        b'data: {"text":"a","ids":"\x01"}',
        b'data: {"text":"a,"ids":[1]}',
    ],
)
def test_what_is_not_one_value_in_each_slot_is_of_no_mould(block: bytes) -> None:
    assert values_of(block) is None


def test_the_first_block_without_the_shared_text_ends_a_run() -> None:
    alike = b'data: {"text":"a","ids":[1]}'
    for other in (b"data: [DONE]", b": keep-alive", b'data: {"text":"a","id":[1]}', b'data: {"text":}', b""):
        assert MOULD.parts([alike, alike, other, alike], 0, 4) == [b'"a"', b"[1]"] * 2
        assert MOULD.parts([other, alike], 0, 2) == []
        assert MOULD.parts([other, alike, alike], 1, 2) == [b'"a"', b"[1]"]


def test_a_chunk_opens_as_if_it_had_come_alone() -> None:
    values = [Raw(b'"a"'), Raw(b"[1]"), Raw(b'"b"'), Raw(b"[2]")]
    assert list(MOULD.opened(values)) == [opened(b'{"text":"a","ids":[1]}'), opened(b'{"text":"b","ids":[2]}')]


def test_a_form_takes_the_values_that_it_has_slots_for() -> None:
    values = [Raw(b"1"), Raw(b"2"), Raw(b"3"), Raw(b"4")]
    assert Form([b"<", b"|", b">"], [1, 0]).filled(values, 2) == b"<2|1><4|3>"
    assert Form([b"<", b">"], [1]).filled(values, 2) == b"<2><4>"
    assert Form([b"-"], []).filled(values, 2) == b"--"
    assert Form([b""], []).filled(values, 2) == b""
