"""A member that several places are in, read in one pass: what it says is what each place says by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters.places import BadValue, Place, Source
from adapters.tables import Table, tables_of

LOGPROB = Place("choice", ("logprobs", "content"), column="logprob")
TOKEN_ID = Place("choice", ("logprobs", "content"), column="token_id")
TOKEN = Place("choice", ("logprobs", "content"), column="token", texts=True)
LISTED = Place("choice", ("logprobs", "token_logprobs"))
TOKENS = Place("choice", ("logprobs", "tokens"), texts=True)
SOURCES = (
    Source(Place("choice", ("token_ids",)), (LOGPROB, LISTED)),
    Source(TOKEN_ID, (LOGPROB,)),
    Source(TOKEN, (LOGPROB,)),
    Source(TOKENS, (LISTED,)),
)


def table() -> Table:
    return tables_of(SOURCES)["logprobs"]


def test_columns_and_lists_are_read_together() -> None:
    raw = Raw(
        b'{"content": [{"logprob": -1.5, "token_id": 7, "bytes": [1]}, {"token_id": 8}], "token_logprobs": [null]}'
    )
    columns = table().read(raw)
    assert columns is not None
    assert columns["content", "token_id"] == [7, 8]
    assert columns["content", "logprob"][0] == -1.5
    assert columns["token_logprobs", None] == [None]


def test_what_was_not_told_is_not_there() -> None:
    assert table().read(Raw(b'{"content": [{"logprob": -1.5}], "token_logprobs": null}')) == {
        ("content", "logprob"): [-1.5]
    }
    assert table().read(Raw(b"{}")) == {}


@pytest.mark.parametrize("text", [b"[]", b"7", b'{"content": 7}', b'{"content": [7]}', b'{"token_logprobs": {}}'])
def test_what_is_not_as_it_should_be_is_left_to_each_place(text: bytes) -> None:
    assert table().read(Raw(text)) is None


@pytest.mark.parametrize(
    "place",
    [
        Place("choice", ("meta", "rows"), column=1),
        Place("choice", ("meta", "deep", "rows"), column="id"),
        Place("choice", ("meta", "lists"), by_choice=True),
        Place("choice", ("token_ids",)),
        Place("root", ("meta", "ids")),
    ],
)
def test_only_members_of_a_choice_with_lists_of_values_or_objects_are_tables(place: Place) -> None:
    assert tables_of((Source(place, (Place("choice", ("logprobs", "token_logprobs")),)),)).keys() == {"logprobs"}


@pytest.mark.parametrize("tokens", [["a", "token_id:7"], ["token_id:7", "token_id:8"]])
def test_texts_are_read_where_one_of_them_may_name_an_id(tokens: list[str]) -> None:
    member = {"content": [{"logprob": -1.5, "token": token} for token in tokens], "tokens": tokens}
    columns = table().read(Raw(json.dumps(member).encode()))
    assert columns is not None
    assert columns["content", "token"] == columns["tokens", None] == tokens


def test_texts_that_name_no_id_are_passed_over() -> None:
    member = {"content": [{"logprob": -1.5, "token": "a"}], "tokens": ["a"], "token_logprobs": [-1.5]}
    assert table().read(Raw(json.dumps(member).encode())) == {
        ("content", "logprob"): [-1.5],
        ("token_logprobs", None): [-1.5],
    }


VALUES = st.sampled_from([-1.5, 0, None, 7, "x", "token_id:7", [1], {}])
ROWS = st.dictionaries(st.sampled_from(["logprob", "token_id", "token"]), VALUES)
LISTS = st.one_of(VALUES, st.lists(ROWS, max_size=4), st.lists(VALUES, max_size=4))


@given(st.one_of(VALUES, st.dictionaries(st.sampled_from(["content", "token_logprobs", "tokens", "refusal"]), LISTS)))
def test_it_says_what_each_place_says_by_itself(member: Any) -> None:
    raw = Raw(json.dumps(member).encode())
    columns = table().read(raw)
    for place in (LOGPROB, LISTED) if columns is not None else ():
        assert columns.get((place.path[-1], place.column)) == alone(place, raw)
    for place in (TOKEN_ID, TOKEN, TOKENS) if columns is not None else ():
        assert named(place, columns.get((place.path[-1], place.column))) == named(place, alone(place, raw))


def named(place: Place, cells: Any) -> Any:
    """The ids that these cells are or name. Texts may be passed over that would name none."""
    try:
        return cells if cells is None or cells == "bad" else place.token_ids_of(cells)
    except BadValue:
        return "bad"


def alone(place: Place, member: Raw) -> Any:
    """What a place gives that is read by itself."""
    try:
        raw = place.find({}, {"logprobs": member}, 0)
        return None if raw is None else place.cells(raw)
    except BadValue:
        return "bad"
