"""The four dialects as agents speak them: a session's next request, and what is understood of its answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from tests.faults import canary
from tests.faults.records import Heard
from tests.faults.said import Said
from tests.faults.said import said as said_in_chat

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """A call that was answered to its end."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    path: str
    """Below a session's own address."""
    asked: Callable[[Sequence[Turn], int], Json]
    """The request's fields: the session so far, and the number of the call."""
    said: Callable[[Heard], Said]
    """Raises msgspec.DecodeError."""

    def body(self, turns: Sequence[Turn], number: int, *, stream: bool) -> bytes:
        return msgspec.json.encode({"model": "scripted", "stream": stream, **self.asked(turns, number)})


def _conversation(turns: Sequence[Turn], number: int) -> list[Json]:
    said: list[Json] = []
    for turn in turns:
        said += [{"role": "user", "content": str(turn.number)}, {"role": "assistant", "content": turn.text}]
    return [*said, {"role": "user", "content": str(number)}]


def _ids(turns: Sequence[Turn], number: int) -> list[int]:
    """An agent that keeps its tokens itself."""
    ids: list[int] = []
    for turn in turns:
        ids += [canary.asked_id(turn.number), *canary.ids_in(turn.text)]
    return [*ids, canary.asked_id(number)]


def _events(body: bytes | bytearray) -> Iterator[Any]:
    """The data of each event that is whole."""
    *whole, _ = body.split(b"\n\n")
    for event in whole:
        for line in event.split(b"\n"):
            if line.startswith(b"data: ") and line != b"data: [DONE]":
                yield msgspec.json.decode(line.removeprefix(b"data: "))


def _refused(heard: Heard) -> Said | None:
    """What every dialect has in common: no answer, or one that is an error."""
    if heard.status is None:
        return Said("", finished=False, error=None, done=False)
    if heard.status != 200:
        return Said("", finished=False, error=heard.body.decode(errors="replace"), done=heard.end == "whole")
    if not heard.stream and heard.end != "whole":
        return Said("", finished=False, error=None, done=False)
    return None


def _said_in_completions(heard: Heard) -> Said:
    refused = _refused(heard)
    if refused is not None:
        return refused
    parts = [*_events(heard.body)] if heard.stream else [msgspec.json.decode(heard.body)]
    choices = [choice for part in parts for choice in part.get("choices") or ()]
    error = next((str(part["error"]) for part in parts if "error" in part), None)
    done = heard.end == "whole" and (not heard.stream or heard.body.endswith(b"data: [DONE]\n\n"))
    finished = any(choice.get("finish_reason") is not None for choice in choices)
    return Said("".join(choice.get("text") or "" for choice in choices), finished, error, done)


def _said_in_messages(heard: Heard) -> Said:
    refused = _refused(heard)
    if refused is not None:
        return refused
    if not heard.stream:
        body = msgspec.json.decode(heard.body)
        text = "".join(block.get("text") or "" for block in body["content"])
        return Said(text, finished=body["stop_reason"] is not None, error=None, done=True)
    texts: list[str] = []
    finished, error, done = False, None, False
    for event in _events(heard.body):
        match event["type"]:
            case "content_block_delta":
                texts.append(event["delta"].get("text") or "")
            case "message_delta":
                finished |= event["delta"].get("stop_reason") is not None
            case "message_stop":
                done = heard.end == "whole"
            case "error":
                error = str(event["error"])
    return Said("".join(texts), finished, error, done)


def _said_in_responses(heard: Heard) -> Said:
    refused = _refused(heard)
    if refused is not None:
        return refused
    if not heard.stream:
        body = msgspec.json.decode(heard.body)
        parts = [part for item in body["output"] for part in item.get("content") or ()]
        return Said("".join(part.get("text") or "" for part in parts), body["status"] == "completed", None, done=True)
    texts: list[str] = []
    finished, error = False, None
    for event in _events(heard.body):
        match event["type"]:
            case "response.output_text.delta":
                texts.append(event["delta"])
            case "response.completed":
                finished = True
            case "response.failed" | "error":
                error = str(event)
    return Said("".join(texts), finished, error, done=finished and heard.end == "whole")


_ALL: Final = (
    Dialect("chat", "/v1/chat/completions", lambda turns, at: {"messages": _conversation(turns, at)}, said_in_chat),
    Dialect("completions", "/v1/completions", lambda turns, at: {"prompt": _ids(turns, at)}, _said_in_completions),
    Dialect(
        "messages",
        "/v1/messages",
        lambda turns, at: {"messages": _conversation(turns, at), "max_tokens": 64},
        _said_in_messages,
    ),
    Dialect("responses", "/v1/responses", lambda turns, at: {"input": _conversation(turns, at)}, _said_in_responses),
)
DIALECTS: Final[Mapping[str, Dialect]] = {dialect.name: dialect for dialect in _ALL}


def said(heard: Heard) -> Said:
    """In whichever dialect the agent asked. Raises msgspec.DecodeError."""
    return DIALECTS[heard.dialect].said(heard)
