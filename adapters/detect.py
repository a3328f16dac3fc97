"""Finding out what a server is by asking it: the questions, and who recognises the answers.

Pure: whoever does the asking brings the replies. What each engine answers is known by its own adapter alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from adapters.raw import NotJSON, integer, open_object


@dataclass(frozen=True, slots=True)
class Question:
    """One request whose reply tells engines apart. A probe is a question with a body: one token, sampled for real."""

    path: str
    body: bytes | None = None
    name: str = ""
    """Of a probe; a plain question is known by its path."""

    @property
    def key(self) -> str:
        return self.name or self.path


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    """Lower-case names."""
    body: bytes = b""

    def fields(self) -> Mapping[str, msgspec.Raw]:
        """The members of a JSON object with a good status; none for anything else."""
        if not 200 <= self.status < 300:
            return {}
        try:
            return open_object(msgspec.Raw(self.body))
        except NotJSON:
            return {}


# By key. A question that got no reply at all is not among them.
Replies = Mapping[str, Reply]

QUESTIONS: Final = tuple(
    Question(path) for path in ("/v1/models", "/version", "/server_info", "/model_info", "/health", "/live")
)


class ListedModel(msgspec.Struct):
    """What of an entry of `/v1/models` tells engines apart."""

    id: str
    owned_by: str | None = None
    object: str | None = None
    max_model_len: msgspec.Raw = msgspec.Raw()

    @property
    def context(self) -> int | None:
        """How many tokens prompt and answer may be together, where the server says."""
        return integer(self.max_model_len)


class _Models(msgspec.Struct):
    data: list[ListedModel]


def listed_models(replies: Replies) -> tuple[ListedModel, ...]:
    """What the server says that it serves; nothing where it does not say."""
    reply = replies.get("/v1/models")
    if reply is None or reply.status != 200:
        return ()
    try:
        return tuple(msgspec.json.decode(reply.body, type=_Models).data)
    except msgspec.DecodeError:
        return ()


@dataclass(frozen=True, slots=True)
class Configured:
    """What the configuration says of a server. Its word stands above whatever is heard; null is left to detection."""

    engine: str | None = None
    version: str | None = None
    variant: str | None = None
    features: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()
