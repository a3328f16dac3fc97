"""Logprobs of an answer's tokens, from the engine's chat shape into that of a text of this API."""

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


class _Choice(Struct, frozen=True):
    index: int = 0
    logprobs: _Logprobs | None = None


class _Answer(Struct, frozen=True):
    choices: list[_Choice] = []


_logprobs: Final = msgspec.json.Decoder(_Logprobs | None)
_answer: Final = msgspec.json.Decoder(_Answer)


def of_delta(raw: Raw | None) -> list[JSON]:
    """What an engine tells with a piece; nothing where it is none of a chat's."""
    try:
        return _told(_logprobs.decode(raw)) if raw is not None else []
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []


def of_body(body: bytes) -> list[JSON]:
    """What an engine tells with a whole chat completion."""
    try:
        choices = _answer.decode(body).choices
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    return next((_told(choice.logprobs) for choice in choices if choice.index == 0), [])


def _told(logprobs: _Logprobs | None) -> list[JSON]:
    tokens: Sequence[_Token] = (logprobs and logprobs.content) or ()
    return [{**_one(token), "top_logprobs": [_one(top) for top in token.top_logprobs or ()]} for token in tokens]


def _one(token: _Top) -> JSON:
    told = token.bytes if token.bytes is not None else list(token.token.encode())
    return {"token": token.token, "bytes": told, "logprob": token.logprob}
