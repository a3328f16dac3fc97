"""Text to ids and back, with nothing lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.scripts import vocabulary
from adapters.scripts.vocabulary import END, SIZE, TURN, decode, encode, piece


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_back_from_its_ids(text: str) -> None:
    assert decode(encode(text)) == text


def test_known_words_are_one_token_and_strange_ones_are_bytes() -> None:
    assert [piece(token_id) for token_id in encode("What is the weather in Zug?")] == [
        b"What",
        b" is",
        b" the",
        b" weather",
        b" in",
        b" ",
        b"Z",
        b"u",
        b"g",
        b"?",
    ]


def test_a_character_is_split_over_tokens() -> None:
    ids = encode("🙂")
    assert ids == (0xF0, 0x9F, 0x99, 0x82)
    assert decode(ids[:3]) == "\N{REPLACEMENT CHARACTER}"


def test_the_name_of_a_special_token_in_text_stays_text() -> None:
    assert TURN not in encode("<|turn|>")
    assert decode(encode("<|turn|>")) == "<|turn|>"


def test_special_tokens_are_left_out_of_text_unless_asked_for() -> None:
    assert decode([*encode("yes"), END]) == "yes"
    assert decode([*encode("yes"), END], specials=True) == "yes<|end|>"


def test_every_id_has_a_piece_of_its_own() -> None:
    pieces = [piece(token_id) for token_id in range(SIZE)]
    assert len(set(pieces)) == SIZE
    assert len(vocabulary.SPECIALS) == 7


@pytest.mark.parametrize("token_id", [-1, SIZE])
def test_an_id_outside_the_vocabulary_has_none(token_id: int) -> None:
    with pytest.raises(IndexError):
        piece(token_id)
