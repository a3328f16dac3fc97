"""Probes: one token sampled for real, to see which of its flags a server heeds and where it answers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec import Raw

from adapters.detect import Question, Replies
from adapters.raw import Fields, NotJSON, join_object, open_object, open_objects, told
from adapters.server import Server

_MESSAGES: Final = Raw(b'[{"role":"user","content":"Hi"}]')
_PROMPT: Final = Raw(b'"Hi"')
_PATTERN: Final = frozenset("*?[")


@dataclass(frozen=True, slots=True)
class Probed:
    """A probe's answer, opened: its root, and its first choice."""

    root: Fields
    choice: Fields


def chat_probe(server: Server, name: str, flags: Mapping[str, Raw]) -> tuple[Question, ...]:
    """The smallest chat with these flags; none where no model is known to ask for."""
    return _probe(server, name, "/v1/chat/completions", {"messages": _MESSAGES, **flags})


def completion_probe(server: Server, name: str, flags: Mapping[str, Raw]) -> tuple[Question, ...]:
    """The smallest legacy completion with these flags; none where no model is known to ask for."""
    return _probe(server, name, "/v1/completions", {"prompt": _PROMPT, **flags})


def probed(replies: Replies, name: str) -> Probed | None:
    """The answer to a probe; None where there is none to learn from: no reply, a refusal, another shape."""
    reply = replies.get(name)
    if reply is None:
        return None
    root = reply.fields()
    try:
        choices = open_objects(raw) if told(raw := root.get("choices")) else []
    except NotJSON:
        return None
    return Probed(dict(root), choices[0]) if choices else None


def member(fields: Mapping[str, Raw], *path: str) -> Raw | None:
    """What stands at the end of a path of members; None where nothing, or null, does."""
    *parents, last = path
    try:
        for name in parents:
            raw = fields.get(name)
            if not told(raw):
                return None
            fields = open_object(raw)
    except NotJSON:
        return None
    return raw if told(raw := fields.get(last)) else None


def _probe(server: Server, name: str, path: str, asked: Fields) -> tuple[Question, ...]:
    model = next((model for model in server.models if _PATTERN.isdisjoint(model)), None)
    if model is None:
        return ()
    fields: Fields = {"model": Raw(msgspec.json.encode(model)), **asked, "max_tokens": Raw(b"1")}
    return (Question(path, join_object(fields), name),)
