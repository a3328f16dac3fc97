"""Lists of ids as one value: what is no id never becomes one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters.token_ids import TokenIds

IDS = st.lists(st.integers(0, 2**31 - 1), max_size=20)


@given(IDS, IDS)
def test_it_is_the_list_it_was_made_of(one: list[int], other: list[int]) -> None:
    ids = TokenIds(one)
    assert ids.tolist() == list(ids) == one
    assert TokenIds.from_bytes(bytes(ids)) == TokenIds.from_json(ids.json()) == ids
    assert TokenIds.from_json(Raw(ids.json())) == ids
    assert (ids + TokenIds(other)).tolist() == one + other
    assert (ids + TokenIds(other)).startswith(ids)
    assert hash(ids) == hash(TokenIds(tuple(one)))
    assert (ids == TokenIds(other)) is (one == other)


@pytest.mark.parametrize(
    "text", [b"[1.0]", b"[true]", b"[null]", b'["1"]', b"[-1]", b"[2147483648]", b"{}", b"1", b"", b"[1", b"[1e2]"]
)
def test_json_that_is_no_list_of_ids_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a list of token ids"):
        TokenIds.from_json(text)


@pytest.mark.parametrize(
    "text",
    [b"123", b'"12"', b"[2147483648]", b"[1,99999999999999999999999999]", b"[[1,2]]", b"[1,-2]", b"[1,2.0]", b"null"],
)
def test_what_an_engine_gives_as_a_list_is_read_no_less_strictly(text: bytes) -> None:
    with pytest.raises(ValueError, match="not a list of token ids"):
        TokenIds.from_json(Raw(text))


@pytest.mark.parametrize(
    ("text", "ids"),
    [(b"[]", []), (b"[ ]", []), (b"[0, 7]", [0, 7]), (b"[ 7 ,8]", [7, 8]), (b"[2147483647]", [2**31 - 1])],
)
def test_a_list_may_be_written_with_spaces(text: bytes, ids: list[int]) -> None:
    assert TokenIds.from_json(Raw(text)).tolist() == TokenIds.from_json(text).tolist() == ids


LONG = b"151643," * 20_000
"""So long a list is read another way."""


@pytest.mark.parametrize("last", [b"-2", b"2.0", b"2147483648", b"99999999999999999999999999", b"[1]", b"null", b'"7"'])
def test_a_long_list_is_read_no_less_strictly(last: bytes) -> None:
    with pytest.raises(ValueError, match="not a list of token ids"):
        TokenIds.from_json(Raw(b"[" + LONG + last + b"]"))


@pytest.mark.parametrize("last", [b"7", b" 7 ", b"2147483647", b"0"])
def test_a_long_list_is_the_same_list(last: bytes) -> None:
    ids = TokenIds.from_json(Raw(b"[" + LONG + last + b"]"))
    assert ids.tolist() == [151643] * 20_000 + [int(last)]


@pytest.mark.parametrize("ids", [[1.0], [True], [None], ["1"], [-1], [2**31]])
def test_a_list_with_anything_else_is_refused(ids: list[int]) -> None:
    with pytest.raises(ValueError, match="not a token id"):
        TokenIds(ids)


@pytest.mark.parametrize("packed", [b"\x01", b"\xff\xff\xff\xff"])
def test_bytes_that_are_no_ids_are_refused(packed: bytes) -> None:
    with pytest.raises(ValueError, match=r"int32|negative"):
        TokenIds.from_bytes(packed)


def test_a_slice_is_a_list_of_ids_and_an_item_is_an_id() -> None:
    ids = TokenIds([1, 2, 3, 4])
    assert ids[1:3] == TokenIds([2, 3])
    assert (ids[0], ids[-1]) == (1, 4)
