"""SGLang's native /generate: its bodies and frames opened, and read as if they were completions.

The gateway plans no call there yet; what was called by other means can be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec
from msgspec import Raw

from adapters.answer_shape import Chunk, ChunkChoice, WholeAnswer
from adapters.errors import error_of
from adapters.raw import Fields, NotJSON, integer, mend, open_array, open_object, told
from adapters.request import CanonicalRequest

GENERATE: Final = "/generate"
GENERATED: Final = "generated"
"""The field of a choice under which all that is told of it stands until it is read."""

_ZERO: Final = Raw(b"0")


def open_frame(data: bytes) -> Chunk:
    """One event's data. Raises NotJSON."""
    try:
        frame = open_object(data)
    except NotJSON:
        data = mend(data)
        frame = open_object(data)
    if (error := error_of(frame)) is not None:
        return Chunk({}, error=error)
    # Where there is one choice a frame names none.
    index = integer(frame.get("index", _ZERO))
    if index is None or index < 0:
        return Chunk({}, odd=("a frame without a valid index",))
    return Chunk({}, (ChunkChoice(index, _choice(Raw(data), frame)),))


def open_generated(body: bytes) -> WholeAnswer:
    """A whole body: one object, or a list of them where there are several choices. Raises NotJSON."""
    several = body.lstrip()[:1] == b"["
    raws = open_array(body) if several else [Raw(body)]
    frames = [open_object(raw) for raw in raws]
    error = None if several else error_of(frames[0])
    choices = tuple(
        {"index": _number(index), **_choice(raw, frame)}
        for index, (raw, frame) in enumerate(zip(raws, frames, strict=True))
    )
    return WholeAnswer({}, () if error is not None else choices, error=error, body=body)


def generated(answer: WholeAnswer, request: CanonicalRequest) -> WholeAnswer:
    """The answer, opened or folded, as a completions endpoint would have shaped it."""
    choices = tuple(
        {**_object(fields.get(GENERATED)), **{name: raw for name, raw in fields.items() if name != GENERATED}}
        for fields in answer.choices
    )
    return replace(answer, root={**answer.root, "usage": _usage(choices, request)}, choices=choices)


def _choice(raw: Raw, frame: Mapping[str, Raw]) -> Fields:
    """What has to be seen of a frame before it is read: whether it is the last of its choice."""
    reason = _object(frame.get("meta_info")).get("finish_reason")
    if not told(reason):
        return {GENERATED: raw}
    # An object, null until the end; it also says which stop token or string has matched.
    matched = _object(reason).get("matched")
    return {GENERATED: raw, "finish_reason": reason, **({"matched_stop": matched} if told(matched) else {})}


def _usage(choices: Sequence[Mapping[str, Raw]], request: CanonicalRequest) -> Raw:
    """The counts of the whole call: each choice has its own, and the choices of one prompt share its."""
    metas = [_object(fields.get("meta_info")) for fields in choices]
    firsts = [
        meta for fields, meta in zip(choices, metas, strict=True) if (integer(fields["index"]) or 0) % request.n == 0
    ]
    counts = {
        "prompt_tokens": _sum(firsts, "prompt_tokens"),
        "completion_tokens": _sum(metas, "completion_tokens"),
        "prompt_tokens_details": {"cached_tokens": _sum(firsts, "cached_tokens")},
    }
    return Raw(msgspec.json.encode(counts))


def _sum(metas: Sequence[Mapping[str, Raw]], name: str) -> int | None:
    """None where any of them does not tell, or there are none."""
    counts = [integer(meta.get(name)) for meta in metas]
    known = [count for count in counts if count is not None]
    return sum(known) if counts and len(known) == len(counts) else None


def _number(number: int) -> Raw:
    return Raw(str(number).encode())


def _object(raw: Raw | None) -> Fields:
    try:
        return open_object(raw) if told(raw) else {}
    except NotJSON:
        return {}
