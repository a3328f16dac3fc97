"""Server-sent events out of bytes: a decoder without I/O, for every way in which a server may write them.

Lines end at LF, CR or CRLF and nowhere else: U+2028 and U+0085 are legal inside JSON, so text-minded line splitters
cut an event in two there. See https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream,
from which this departs on purpose: an event without data is given too (Dynamo tells errors by `event: error` and a
comment), and so is what stands after the last blank line, marked as not terminated.
"""

from __future__ import annotations

from typing import Final

import msgspec

MAX_EVENT: Final = 64 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """One event is larger than the decoder's limit. `before` has the events before it; nothing after it is read."""

    def __init__(self, limit: int, before: list[Event]) -> None:
        super().__init__(f"a server-sent event is larger than {limit} bytes")
        self.limit = limit
        self.before = before


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event. A Struct, for one is made per token: a frozen dataclass costs ten times as much to make."""

    data: bytes | None
    """The `data` lines, joined by LF; null when there was none."""
    name: str = ""
    """The `event` line's value; empty when there was none."""
    comment: str = ""
    """The event's comment lines, joined by LF."""
    terminated: bool = True
    """False for what stood after the last blank line when the stream ended."""


class SSEDecoder:
    """Bytes in, events out, in time linear in the bytes however they are cut.

    The bytes of one event are bounded by `limit`: `feed` raises EventTooLarge where that is passed, and gives nothing
    more from then on.
    """

    __slots__ = ("_begun", "_buffer", "_cr", "_limit", "_overfull")

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._begun = False
        self._cr = False
        self._overfull = False

    def feed(self, data: bytes) -> list[Event]:
        """The events that end in these bytes. Raises EventTooLarge."""
        return self._events(self.blocks(data))

    def blocks(self, data: bytes) -> list[bytes]:
        """The texts of the events that end in these bytes, for `event` in this order. Raises EventTooLarge."""
        if self._overfull or not data:
            return []
        if self._cr or b"\r" in data:
            data = self._with_line_feeds(data)
        crowded = len(self._buffer) + len(data) > self._limit
        blocks = self._blocks(data)
        if crowded:
            for number, block in enumerate(blocks):
                if len(block) > self._limit:
                    raise self._too_large(blocks[:number])
            if len(self._buffer) > self._limit:
                raise self._too_large(blocks)
        return blocks

    def event(self, block: bytes) -> Event | None:
        """The event of a block; None where it says nothing."""
        if block.startswith(b"data: ") and b"\n" not in block:  # As nearly all are.
            self._begun = True
            return Event(block[6:])
        return self._event(block)

    def flush(self) -> Event | None:
        """What stood after the last blank line, if anything; the stream has ended."""
        block = bytes(self._buffer)
        self._buffer.clear()
        return self._event(block, terminated=False)

    def _with_line_feeds(self, data: bytes) -> bytes:
        """The data with LF for CRLF and CR, also for a CRLF that was cut in two."""
        if self._cr and data.startswith(b"\n"):
            data = data[1:]
            self._cr = False
        if data:
            self._cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _blocks(self, data: bytes) -> list[bytes]:
        """What stands before each blank line; the rest stays in the buffer."""
        buffer = self._buffer
        if buffer:
            seam = len(buffer) - 1
            buffer += data
            end = buffer.rfind(b"\n\n", seam)
            if end < 0:
                return []
            data = bytes(memoryview(buffer)[: end + 2])
            del buffer[: end + 2]
            *blocks, _ = _split(data)
            return blocks
        *blocks, rest = _split(data)
        buffer += rest
        return blocks

    def _event(self, block: bytes, *, terminated: bool = True) -> Event | None:
        if not self._begun:
            block = block.removeprefix(_BOM)
            self._begun = True
        return _event_of_lines(block, terminated)

    def _events(self, blocks: list[bytes]) -> list[Event]:
        return [event for block in blocks if (event := self.event(block)) is not None]

    def _too_large(self, before: list[bytes]) -> EventTooLarge:
        self._overfull = True
        self._buffer.clear()
        return EventTooLarge(self._limit, self._events(before))


def _split(data: bytes) -> list[bytes]:
    """What stands between blank lines."""
    # Half the time of a split at two bytes, where each event is one line, as nearly all are.
    lines = data.split(b"\n")
    if len(lines) % 2 == 0 or any(lines[1::2]):
        return data.split(b"\n\n")
    return lines[::2]


def _event_of_lines(block: bytes, terminated: bool) -> Event | None:
    data: list[bytes] = []
    comments: list[bytes] = []
    name = b""
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
        elif line.startswith(b":"):
            comments.append(value)
        # `id` and `retry` are for clients that reconnect; unknown fields are to be ignored.
    if not data and not name and not comments:
        return None
    return Event(
        b"\n".join(data) if data else None,
        name.decode(errors="replace"),
        b"\n".join(comments).decode(errors="replace"),
        terminated,
    )
