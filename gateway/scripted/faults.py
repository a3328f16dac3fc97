"""What can go wrong at a backend, as data: a scripted server does these at a call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from adapters.scripts.script import Answer, Frame

Ending = Literal["clean", "closed", "reset", "hung"]
"""How an answer's bytes end: as HTTP says, by a closed or a reset connection, or by saying nothing more."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Everything at its default is a healthy answer. Times are seconds; places count frames, or bytes of the body."""

    delay: float = 0.0
    """Before the headers."""
    pause: float = 0.0
    """Before each frame but the first."""
    silent: bool = False
    """No byte of an answer: the connection ends as `ending` says."""
    after_frames: int | None = None
    after_bytes: int | None = None
    """Where the body ends early, as `ending` says. Without either, the answer is whole."""
    ending: Ending = "closed"
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    """More of them."""
    content_type: str | None = None
    body: bytes | None = None
    """Verbatim in the place of the script's."""
    insert: Mapping[int, bytes] = field(default_factory=dict)
    """Bytes that stand before the frame of this number."""
    piece: int | None = None
    """Frames go out in pieces of so many bytes, a write each."""
    raw: bytes | None = None
    """Written on the connection in place of all HTTP; then it ends as `ending` says."""

    @property
    def ends_early(self) -> bool:
        return self.silent or self.raw is not None or self.after_frames is not None or self.after_bytes is not None

    def instead_of(self, answer: Answer) -> Answer:
        """The answer with status, type, body and insertions of this fault in place."""
        frames = answer.frames if self.body is None else (Frame(self.body),)
        kept = frames[: self.after_frames]
        inserted = [Frame(self.insert.get(at, b"") + frame.data, frame.told) for at, frame in enumerate(kept)]
        tail = self.insert.get(len(kept))
        if tail is not None:
            inserted.append(Frame(tail))
        status = answer.status if self.status is None else self.status
        content_type = answer.content_type if self.content_type is None else self.content_type
        return Answer(status, tuple(inserted), content_type)

    def writes(self, frames: Sequence[Frame]) -> Iterator[tuple[bytes, Frame | None]]:
        """Bytes of one write each, with the frame that is whole by them, up to `after_bytes`."""
        left = self.after_bytes
        for frame in frames:
            size = self.piece or max(len(frame.data), 1)
            pieces = [frame.data[start : start + size] for start in range(0, len(frame.data), size)]
            for number, piece in enumerate(pieces):
                kept = piece if left is None else piece[:left]
                whole = number == len(pieces) - 1 and len(kept) == len(piece)
                yield kept, frame if whole else None
                if left is not None:
                    left -= len(kept)
                    if left == 0:
                        return


HEALTHY = Fault()
