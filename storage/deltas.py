"""A payload as few bytes: plain, compressed, or as its difference from a base that is much like it.

A difference is the length of the common prefix and the rest as a zstd frame, whose raw dictionary is the part of the
base around the place where the two diverge. A growing conversation is then compressed in the time that its new turn
takes; a history that was rendered anew has the whole base as dictionary.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

from storage.zstd import zstd

# Levels 5 and 6 take twice the time for a tenth fewer bytes.
_LEVEL: Final = 3
_PLAIN: Final = b"\x00"
_ZSTD: Final = b"\x01"
_DELTA: Final = b"\x02"
_HEAD: Final = struct.Struct("<cIII")
_TOO_SMALL: Final = 512
_FEW_FLOATS: Final = 2048
_LEAST_DICTIONARY: Final = 8
"""Bytes of which zstd makes anything. Fewer are as none, to it as well."""
_AROUND: Final = 8 * 1024
_SMALL_REST: Final = 16 * 1024
_BLOCK: Final = 16 * 1024
_GLANCE: Final = 1024
"""Most texts that are not alike differ in as much."""
_LEAST_WINDOW_LOG, _LARGEST_WINDOW_LOG = zstd.CompressionParameter.window_log.bounds()
_DECOMPRESSION: Final[Mapping[int, int]] = {zstd.DecompressionParameter.window_log_max: _LARGEST_WINDOW_LOG}
"""Else it refuses what is larger than 128 MiB, for fear of strangers' frames."""


class BadDelta(ValueError):
    """Bytes that no encoder gave, or another base than it had."""


def common_prefix(one: bytes, other: bytes) -> int:
    """How many bytes the two have in common from their start."""
    shorter, longer = sorted((one, other), key=len)
    if longer.startswith(shorter):
        return len(shorter)
    start = 0
    # Slices are compared without letting go of the interpreter, which the writer would have to win back from the loop.
    size = _BLOCK
    while longer.startswith(shorter[start : start + size], start):
        start += size
    while size > 1:
        size //= 2
        if longer.startswith(shorter[start : start + size], start):
            start += size
    return start


def begin_alike(one: bytes, other: bytes) -> bool:
    """Whether they have more than half of the shorter in common from their start."""
    enough = min(len(one), len(other)) // 2 + 1
    if len(other) < enough or not one.startswith(other[: min(enough, _GLANCE)]):
        return False
    return one.startswith(other[:enough])


class Encoder:
    """Encodes payloads, each with the one context that is dear to make. For one thread."""

    def __init__(self) -> None:
        self._compressor = zstd.ZstdCompressor(_LEVEL)

    def encode(self, payload: bytes, base: bytes | None = None) -> bytes:
        """The smallest form that its length is worth; the first byte says which."""
        if len(payload) < _TOO_SMALL:
            return plain(payload)
        packed = _delta(payload, base) if base else _ZSTD + self._compressed(payload)
        return packed if len(packed) <= len(payload) else plain(payload)

    def encode_floats(self, payload: bytes) -> bytes:
        """The same for numbers that shrink by a tenth at best: of a few hundred that is not worth the time."""
        return plain(payload) if len(payload) < _FEW_FLOATS else self.encode(payload)

    def _compressed(self, payload: bytes) -> bytes:
        return self._compressor.compress(payload, zstd.ZstdCompressor.FLUSH_FRAME)


def plain(payload: bytes) -> bytes:
    return _PLAIN + payload


def decode(blob: bytes, base: bytes | None = None) -> bytes:
    """What the encoder was given. Raises BadDelta."""
    form = blob[:1]
    try:
        if form == _PLAIN:
            return blob[1:]
        if form == _ZSTD:
            return zstd.decompress(blob[1:], options=_DECOMPRESSION)
        if form == _DELTA and base is not None:
            return _undelta(blob, base)
    except (zstd.ZstdError, struct.error) as exc:
        raise BadDelta(str(exc)) from exc
    raise BadDelta("needs its base" if form == _DELTA else f"unknown form {form!r}")


def _delta(payload: bytes, base: bytes) -> bytes:
    prefix = common_prefix(payload, base)
    rest = payload[prefix:]
    if not rest:  # A call made again.
        return _HEAD.pack(_DELTA, prefix, 0, 0)
    start, end = _dictionary_span(prefix, len(rest), len(base))
    dictionary = base[start:end]
    # Without a window over both, zstd forgets the dictionary's begin.
    window = (len(rest) + len(dictionary)).bit_length()
    options: Mapping[int, int] = {
        zstd.CompressionParameter.compression_level: _LEVEL,
        zstd.CompressionParameter.window_log: min(max(window, _LEAST_WINDOW_LOG), _LARGEST_WINDOW_LOG),
    }
    return _HEAD.pack(_DELTA, prefix, start, end) + zstd.compress(rest, options=options, zstd_dict=_raw(dictionary))


def _undelta(blob: bytes, base: bytes) -> bytes:
    _, prefix, start, end = _HEAD.unpack_from(blob)
    if max(prefix, end) > len(base):
        raise BadDelta(f"its base has {len(base)} bytes, too few")
    rest = blob[_HEAD.size :]
    if start == end == 0 and not rest:
        return base[:prefix]
    return base[:prefix] + zstd.decompress(rest, zstd_dict=_raw(base[start:end]), options=_DECOMPRESSION)


def _dictionary_span(prefix: int, rest: int, base: int) -> tuple[int, int]:
    """A short rest is most like what stands near; a long one may be like any part (a compacted history)."""
    if rest > _SMALL_REST:
        return 0, base
    return max(0, prefix - _AROUND), min(base, prefix + rest + _AROUND)


def _raw(dictionary: bytes) -> tuple[zstd.ZstdDict, int] | None:
    """As what stands before the text, for it serves once: a digested dictionary takes longer to make than it saves."""
    return zstd.ZstdDict(dictionary, is_raw=True).as_prefix if len(dictionary) >= _LEAST_DICTIONARY else None
