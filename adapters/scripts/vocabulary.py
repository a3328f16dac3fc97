"""A small vocabulary of our own: any text to token ids and back, the same on every machine.

Ids 0–255 are single bytes, so that everything can be written and characters can be split over tokens, as
in real vocabularies; the words and fragments below come after them (the longest match wins); the special
tokens come last. `decode(encode(text)) == text` for every text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_WORDS: Final = """
a about after again agent all also always am an and answer any are as ask at back be because before
better both but by call called can celsius check city clear cloudy code could count current day
degrees do does done each engine even every exact fair few file find fine first five for forecast
four from gateway get give go good got had has have he hello help here hi high his hot how i ids if
in is it its just kept know last later let like line list little logprobs london look low make many
me message mild model more most much my name need never new next nine no not now number of off ok on
once one only or other our out over paris plain please plus probably prompt rain rather read run
said same sample say scripted see send seven she should six sky small so some sorry still stop sun
sunny sure take ten than that the their them then there they thing think this three time tiny to
today token tokens tokyo tool trace try turn two umbrella under up upon use user very was weather
well went were what when where which while who why will wind windy with word words work would write
yes you your
"""

_FRAGMENTS: Final = (
    '{"', '"}', '": ', '": "', '", "', '":', '",', "{}", "}}", "['", "ed", "er", "es", "ing", "ion",
    "ly", "re", "st", "th", "at", "en", "he", "ou", ". ", ", ", "! ", "? ", "\n\n", "name",
    "arguments", "get_weather", "°C", " –", "'s", "n't",
)  # fmt: skip

SPECIALS: Final = ("<|turn|>", "<|end|>", "<|halt|>", "<tool_call>", "</tool_call>", "<think>", "</think>")
"""Written as one token each, and never made from plain text: what a user types stays text."""


def _pieces() -> tuple[bytes, ...]:
    words = [form for word in _WORDS.split() for form in (word, f" {word}", word.capitalize(), f" {word.capitalize()}")]
    written = dict.fromkeys(piece.encode() for piece in (*words, *_FRAGMENTS))
    return (*(bytes([byte]) for byte in range(256)), *(piece for piece in written if len(piece) > 1))


_PLAIN: Final = _pieces()
_ID_OF: Final = {piece: token_id for token_id, piece in enumerate(_PLAIN)}
_PIECES: Final = (*_PLAIN, *(special.encode() for special in SPECIALS))
_LENGTHS: Final = {
    first: tuple(sorted({len(piece) for piece in _PLAIN if piece[0] == first}, reverse=True)) for first in range(256)
}

TURN, END, HALT, CALL, CALL_END, THINK, THINK_END = range(len(_PLAIN), len(_PIECES))
SIZE: Final = len(_PIECES)


def encode(text: str) -> tuple[int, ...]:
    """Token ids of plain text, greedily. Lone surrogates are a UnicodeEncodeError, as they are no text."""
    data = text.encode()
    ids: list[int] = []
    at = 0
    while at < len(data):
        for length in _LENGTHS[data[at]]:
            token_id = _ID_OF.get(data[at : at + length])
            if token_id is not None:
                ids.append(token_id)
                at += length
                break
    return tuple(ids)


def piece(token_id: int) -> bytes:
    """The bytes that an id stands for, specials included. IndexError for an id that is not ours."""
    if token_id < 0:
        raise IndexError(f"no token has the id {token_id}")
    return _PIECES[token_id]


def decode(ids: Iterable[int], *, specials: bool = False) -> str:
    """Text of ids; special tokens are left out unless asked for; half a character becomes U+FFFD."""
    kept = (token_id for token_id in ids if specials or token_id < len(_PLAIN))
    return b"".join(piece(token_id) for token_id in kept).decode(errors="replace")
