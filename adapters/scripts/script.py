"""What a scripted engine is: from a request and what is to be said, the bytes of its answer in its shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import msgspec

from adapters.scripts.asked import Asked, BadRequest
from adapters.scripts.speech import Speech, Token, cut

Told = tuple[tuple[int, int], ...]
"""`(choice index, token id)` of the completion ids that some bytes tell their reader, in order."""

Json = dict[str, object]
"""One object of an answer, before it is written."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Bytes that leave the server together."""

    data: bytes
    told: Told = ()


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    frames: tuple[Frame, ...]
    content_type: str = "application/json"

    @property
    def body(self) -> bytes:
        return b"".join(frame.data for frame in self.frames)

    @property
    def told(self) -> Told:
        return tuple(pair for frame in self.frames for pair in frame.told)


@dataclass(frozen=True, slots=True)
class Stamp:
    """What differs between two equal answers. Given from outside, so that scripts are pure."""

    id: str
    created: int


class EngineScript(Protocol):
    """One engine in one version. Implementations are frozen and hold no state."""

    engine: ClassVar[str]
    tells_ids: ClassVar[bool]
    """Whether it tells token ids at all."""
    counts_at: ClassVar[str | None]
    """The path where it counts the tokens of a chat; null where it does not."""

    @property
    def model(self) -> str: ...

    def answer(self, asked: Asked, speeches: Sequence[Speech], stamp: Stamp) -> Answer:
        """The answer to a call; `speeches` has one entry a choice, already cut to what was asked."""

    def unreadable(self, error: BadRequest) -> Answer:
        """The refusal of a body that is no request."""

    def page(self, path: str) -> Answer | None:
        """What a GET of this path gives; null where the engine has no such page."""

    def missing(self, method: str, path: str) -> Answer:
        """The 404 of a path that the engine does not have."""


def said(asked: Asked, given: Sequence[Speech]) -> tuple[Speech, ...]:
    """One speech a choice: the given ones in turn, from the first again when spent, cut to what was asked."""
    return tuple(
        cut(given[index % len(given)], max_tokens=asked.max_tokens, stops=asked.stops) for index in range(asked.choices)
    )


def whole(body: Json, *, status: int = 200, told: Told = ()) -> Answer:
    return Answer(status, (Frame(msgspec.json.encode(body), told),))


def streamed(chunks: Iterable[tuple[Json, Told]], *, content_type: str) -> Answer:
    """Chunks as server-sent events, then `[DONE]`."""
    frames = [Frame(b"data: " + msgspec.json.encode(chunk) + b"\n\n", told) for chunk, told in chunks]
    return Answer(200, (*frames, Frame(b"data: [DONE]\n\n")), content_type)


def told(index: int, tokens: Iterable[Token]) -> Told:
    return tuple((index, token.id) for token in tokens)


def told_whole(speeches: Sequence[Speech]) -> Told:
    return tuple(pair for index, speech in enumerate(speeches) for pair in told(index, speech.tokens))


@dataclass(frozen=True, slots=True)
class Step:
    """What one choice gained in one step of the engine."""

    index: int
    start: int
    """How many tokens the choice had before."""
    tokens: tuple[Token, ...]
    last: bool


def steps(speeches: Sequence[Speech], size: int) -> Iterator[Step]:
    """The choices take turns, `size` tokens each, as in a batch."""
    longest = max((len(speech.tokens) for speech in speeches), default=0)
    for start in range(0, longest, size):
        for index, speech in enumerate(speeches):
            tokens = speech.tokens[start : start + size]
            if tokens:
                yield Step(index, start, tokens, start + size >= len(speech.tokens))


def version_of(text: str) -> tuple[int, ...]:
    """Versions are compared by their leading numbers: `0.5.12.post1` is (0, 5, 12)."""
    numbers: list[int] = []
    for part in text.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)
