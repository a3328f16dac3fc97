"""Keys as callers bring them."""

import pytest

from gateway.keys import digest, is_session_key, is_stored_key, keys_in, new_key, new_session_key


@pytest.mark.parametrize(
    ("headers", "keys"),
    [
        ({}, []),
        ({"authorization": "Bearer a"}, ["a"]),
        ({"authorization": "bearer   a "}, ["a"]),
        ({"authorization": "Bearer "}, []),
        ({"authorization": "Basic YTpi"}, []),
        ({"authorization": "a"}, []),
        ({"x-api-key": "b"}, ["b"]),
        ({"authorization": "Bearer a", "x-api-key": "b"}, ["a", "b"]),
        ({"authorization": "Bearer a", "x-api-key": "a"}, ["a"]),
    ],
)
def test_keys_stand_where_sdks_put_them(headers: dict[str, str], keys: list[str]) -> None:
    assert keys_in(headers) == keys


def test_session_keys_are_long_and_never_the_same() -> None:
    first, second = new_session_key(), new_session_key()
    assert first != second
    assert is_session_key(first)
    assert len(first) >= 40


def test_made_keys_are_told_from_session_keys_by_their_look() -> None:
    assert [is_stored_key(new_key()), is_session_key(new_key())] == [True, False]
    assert [is_stored_key(new_session_key()), is_session_key(new_session_key())] == [False, True]


def test_a_digest_can_be_made_of_any_header() -> None:
    assert len(digest("\udcff ü")) == 32
