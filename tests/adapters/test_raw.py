"""JSON as text: opened and joined without a digit reprinted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters.raw import NotJSON, integer, join_object, mend, open_array, open_object, open_objects, text, told

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5))
def test_what_is_opened_and_joined_is_the_same(value: dict[str, Any]) -> None:
    assert json.loads(join_object(open_object(json.dumps(value).encode()))) == value


def test_digits_and_white_space_inside_values_stay() -> None:
    assert join_object(open_object(b'{ "a" : 1.00 , "b":[1 , 2e0]}')) == b'{"a":1.00,"b":[1 , 2e0]}'


@pytest.mark.parametrize("body", [b"", b"[]", b"5", b"{", b'{"a":1}x', b"\xff", b'{"a":' + b"[" * 100_000])
def test_what_is_no_object_is_refused_by_name(body: bytes) -> None:
    with pytest.raises(NotJSON):
        open_object(body)


def test_lists_are_refused_by_name_too() -> None:
    for open_it in (open_objects, open_array):
        with pytest.raises(NotJSON):
            open_it(b'{"a":1}')


@pytest.mark.parametrize(
    ("raw", "number"), [(b"5", 5), (b"-5", -5), (b"5.0", None), (b"true", None), (b'"5"', None), (b"null", None)]
)
def test_an_integer_is_one_and_nothing_else_is(raw: bytes, number: int | None) -> None:
    assert integer(Raw(raw)) == number


def test_null_and_absent_are_not_told() -> None:
    assert not told(None)
    assert not told(Raw(b"null"))
    assert told(Raw(b'""'))
    assert text(Raw(b"5")) is None


@pytest.mark.parametrize(
    ("lenient", "strict"),
    [
        (b'{"a": NaN, "b": -Infinity}', b'{"a":null,"b":null}'),
        (b'{"a":"x\\ud83d"}', b'{"a":"x?"}'),
        (b'{"a":"\\ud83d\\udc4b"}', '{"a":"👋"}'.encode()),
    ],
)
def test_what_lenient_printers_write_is_mended(lenient: bytes, strict: bytes) -> None:
    assert mend(lenient) == strict


@pytest.mark.parametrize("body", [b"", b"oops", b'{"a":', b"\xff", b"[" * 100_000])
def test_what_cannot_be_mended_is_refused_by_name(body: bytes) -> None:
    with pytest.raises(NotJSON):
        mend(body)
