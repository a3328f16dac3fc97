"""What an agent makes of the bytes that it got: the text, and whether it was told that the answer is at its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from tests.faults.records import Heard


@dataclass(frozen=True, slots=True)
class Said:
    text: str
    finished: bool
    """A finish reason was seen: an agent acts on it, whatever follows."""
    error: str | None
    """An error's message, as a body or as an event."""
    done: bool
    """The answer has all of its end: of a stream the `[DONE]`, of a whole answer the last byte."""


def said(heard: Heard) -> Said:
    """Raises msgspec.DecodeError where a whole answer is no JSON, or an event of a stream that ended is none."""
    if heard.status is None:
        return Said("", finished=False, error=None, done=False)
    if heard.status != 200:
        return Said("", finished=False, error=heard.body.decode(errors="replace"), done=heard.end == "whole")
    return _streamed(heard) if heard.stream else _whole(heard)


def _whole(heard: Heard) -> Said:
    if heard.end != "whole":
        return Said("", finished=False, error=None, done=False)
    body = msgspec.json.decode(heard.body)
    return Said(_text(body, "message"), finished=_finished(body), error=_error(body), done=True)


def _streamed(heard: Heard) -> Said:
    texts: list[str] = []
    finished, error, done = False, None, False
    for data in _events(heard.body):
        if data == b"[DONE]":
            done = True
            continue
        chunk = msgspec.json.decode(data)
        texts.append(_text(chunk, "delta"))
        finished |= _finished(chunk)
        error = error or _error(chunk)
    return Said("".join(texts), finished, error, done=done and heard.end == "whole")


def _events(body: bytes | bytearray) -> Iterator[bytes | bytearray]:
    """The data of each event that is whole; gateways send `data: …` lines and comments alone."""
    *whole, _ = body.split(b"\n\n")
    return (event.removeprefix(b"data: ") for event in whole if event.startswith(b"data: "))


def _text(body: dict[str, Any], part: str) -> str:
    return "".join((choice.get(part) or {}).get("content") or "" for choice in body.get("choices") or ())


def _finished(body: dict[str, Any]) -> bool:
    return any(choice.get("finish_reason") is not None for choice in body.get("choices") or ())


def _error(body: dict[str, Any]) -> str | None:
    error = body.get("error")
    return None if error is None else str(error.get("message"))
