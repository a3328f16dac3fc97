"""How the frames of a native /generate stream fold: some servers repeat all that they said before, some do not.

By its arguments a server sends text, ids and logprobs as a whole so far (the default), or as the next part
(`--incremental-streaming-output`), or the text in the first way and the ids in the second (`--stream-output`, up to
0.5.9); and of a request that is aborted it sends the last id and the whole text once more. Each frame has the count of
ids, by which lists are told apart.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from adapters.raw import Fields, NotJSON, integer, join_array, join_object, open_array, open_object, text, told
from adapters.rules import Odd

_IDS: Final = "output_ids"
_META: Final = "meta_info"
_LOGPROBS: Final = "output_token_logprobs"


class Generated:
    """The folding rule: frames of one choice become the object that an answer in one piece has for it."""

    __slots__ = ("_frame", "_ids", "_logprobs", "_meta", "_text")
    settled = False

    def __init__(self) -> None:
        self._frame: Fields = {}
        self._meta: Fields = {}
        self._text = _GrowingText()
        self._ids = _GrowingList()
        self._logprobs = _GrowingList()

    def add(self, raw: Raw) -> None:
        frame = _opened(raw)
        meta = _opened(frame.get(_META))
        said, ids, logprobs = frame.pop("text", None), frame.pop(_IDS, None), meta.pop(_LOGPROBS, None)
        self._frame |= _copied(frame)
        self._meta |= _copied(meta)
        count = integer(meta.get("completion_tokens"))
        again = self._ids.add(ids, count)
        self._logprobs.add(logprobs, count)
        self._text.add(text(said) or "", again=again, repeats=self._ids.repeats)

    def json(self) -> Raw:
        meta = dict(self._meta)
        if self._logprobs.told:
            meta[_LOGPROBS] = self._logprobs.json()
        frame = {**self._frame, "text": Raw(msgspec.json.encode(self._text.whole())), _META: Raw(join_object(meta))}
        if self._ids.told:
            frame[_IDS] = self._ids.json()
        return Raw(join_object(frame))


class _GrowingList:
    """A list of which each frame brings the whole, the next part, or a part that overlaps with what came before."""

    __slots__ = ("_items", "repeats", "told")

    def __init__(self) -> None:
        self._items: list[Raw] = []
        self.told = False
        self.repeats = False
        """Whether frames bring the whole so far."""

    def add(self, raw: Raw | None, count: int | None) -> bool:
        """`count` is how long the list is said to be by now. Gives whether any item came again. Raises Odd."""
        if not told(raw):
            return False
        try:
            part = [Raw(bytes(item)) for item in open_array(raw)]
        except NotJSON:
            raise Odd("not a list") from None
        self.told = True
        had = len(self._items)
        if count is None:
            # A frame without a count: only what begins with all that came before is known to be the whole.
            count = len(part)
        overlap = had + len(part) - count
        if not 0 <= overlap <= min(had, len(part)) or part[:overlap] != self._items[had - overlap :]:
            raise Odd(f"{len(part)} items after {had} do not make {count}")
        self._items += part[overlap:]
        self.repeats = self.repeats or 0 < had == overlap < len(part)
        return overlap > 0

    def json(self) -> Raw:
        return Raw(join_array(self._items))


class _GrowingText:
    """A text has no count: it is the whole so far when every frame's begins with the one before, and has grown."""

    __slots__ = ("_chained", "_grew", "_last", "_parts", "_resent")

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._last = ""
        self._chained = True
        self._grew = False
        self._resent: str | None = None

    def add(self, said: str, *, again: bool, repeats: bool) -> None:
        if again and not repeats:
            # The end of an aborted request: the ids were told again, and so is the text.
            self._resent = said
        self._chained = repeats or (self._chained and said.startswith(self._last))
        self._grew = repeats or self._grew or (bool(self._last) and len(said) > len(self._last))
        self._parts.append(said)
        self._last = said

    def whole(self) -> str:
        if self._chained and self._grew:
            return self._last
        return self._resent if self._resent is not None else "".join(self._parts)


def _opened(raw: Raw | None) -> Fields:
    if not told(raw):
        return {}
    try:
        return open_object(raw)
    except NotJSON:
        raise Odd("a frame is not an object") from None


def _copied(fields: Fields) -> Fields:
    """A Raw keeps the whole frame that it came in."""
    return {name: Raw(bytes(raw)) for name, raw in fields.items() if told(raw)}
