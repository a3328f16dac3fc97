"""What a chat tells that is no part of a completion: the tokens of logprobs by their text, and that it is a refusal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw, Struct

from gateway.dialects.responses.events import JSON


class _Top(Struct, frozen=True):
    token: str
    logprob: float | None = None
    bytes: list[int] | None = None


class _Token(_Top, frozen=True):
    top_logprobs: list[_Top] | None = None


class _Logprobs(Struct, frozen=True):
    content: list[_Token] | None = None


class _Message(Struct, frozen=True):
    refusal: str | None = None


class _Choice(Struct, frozen=True):
    index: int = 0
    message: _Message | None = None
    logprobs: _Logprobs | None = None


class _Answer(Struct, frozen=True):
    choices: list[_Choice] = []


_logprobs: Final = msgspec.json.Decoder(_Logprobs | None)
_answer: Final = msgspec.json.Decoder(_Answer)


def logprobs_of(raw: Raw | None) -> list[JSON]:
    """What an engine tells with a piece; nothing where it is none of a chat's."""
    try:
        return _told(_logprobs.decode(raw)) if raw is not None else []
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []


def logprobs_in(body: bytes) -> list[JSON]:
    """What an engine tells with a whole chat completion."""
    return _told(_first(body).logprobs)


def refusal_in(body: bytes) -> str | None:
    """The words of a chat completion that is a refusal."""
    message = _first(body).message
    return message.refusal if message is not None else None


def _first(body: bytes) -> _Choice:
    try:
        choices = _answer.decode(body).choices
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _Choice()
    return next((choice for choice in choices if choice.index == 0), _Choice())


def _told(logprobs: _Logprobs | None) -> list[JSON]:
    tokens: Sequence[_Token] = (logprobs and logprobs.content) or ()
    return [{**_one(token), "top_logprobs": [_one(top) for top in token.top_logprobs or ()]} for token in tokens]


def _one(token: _Top) -> JSON:
    told = token.bytes if token.bytes is not None else list(token.token.encode())
    return {"token": token.token, "bytes": told, "logprob": token.logprob}
