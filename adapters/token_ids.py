"""Lists of token ids as one immutable value over int32: a tuple of 100,000 ints is not one."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

_WIDTH: Final = 4
_INT32_MAX: Final = 2**31 - 1
_DTYPE: Final = np.dtype("<i4")
_PLAIN: Final = b"0123456789,"
"""Between the brackets of a list JSON has nothing but whole numbers of these bytes, each 0 or more."""
_LONG: Final = 64 * 1024
"""Bytes: some 10,000 ids."""
# Checks each id while it decodes, which Python takes six times as long for.
_listed: Final = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=0, le=_INT32_MAX)]])


class TokenIds:
    """An immutable list of token ids, kept as little-endian int32 (four bytes an id).

    Ids are 0 … 2³¹−1; anything else (negative, null, a float, a bool) is a ValueError, so nobody checks again.
    """

    __slots__ = ("_packed",)

    _packed: bytes

    def __init__(self, ids: Iterable[int] = ()) -> None:
        if isinstance(ids, TokenIds):
            self._packed = ids._packed
            return
        listed = ids if isinstance(ids, list | tuple) else list(ids)
        for token_id in listed:
            if type(token_id) is not int or not 0 <= token_id <= _INT32_MAX:
                raise ValueError(f"not a token id: {token_id!r}")
        self._packed = np.array(listed, dtype=_DTYPE).tobytes()

    @classmethod
    def from_bytes(cls, packed: bytes) -> TokenIds:
        """From what `bytes()` gave: little-endian int32."""
        if len(packed) % _WIDTH:
            raise ValueError(f"{len(packed)} bytes are not a whole number of int32 ids")
        if packed and int(np.frombuffer(packed, dtype=_DTYPE).min()) < 0:
            raise ValueError("negative token id")
        ids = cls.__new__(cls)
        ids._packed = bytes(packed)
        return ids

    @classmethod
    def from_json(cls, raw: bytes | bytearray | memoryview | msgspec.Raw) -> TokenIds:
        """From the JSON text of a list of integers. Raises ValueError for anything else."""
        packed = _packed(bytes(raw)) if isinstance(raw, msgspec.Raw) and len(raw) > _LONG else None
        if packed is None:
            try:
                listed = _listed.decode(raw)
            except msgspec.DecodeError as exc:
                raise ValueError(f"not a list of token ids: {exc}") from exc
            packed = struct.pack(f"<{len(listed)}i", *listed)  # Half of what numpy takes.
        ids = cls.__new__(cls)
        ids._packed = packed
        return ids

    @classmethod
    def concat(cls, parts: Iterable[TokenIds]) -> TokenIds:
        ids = cls.__new__(cls)
        ids._packed = b"".join(part._packed for part in parts)
        return ids

    def startswith(self, prefix: TokenIds) -> bool:
        return self._packed.startswith(prefix._packed)

    def tolist(self) -> list[int]:
        listed: list[int] = self.numpy().tolist()
        return listed

    def numpy(self) -> npt.NDArray[np.int32]:
        """A read-only int32 array of shape (len,), sharing this value's memory."""
        return np.frombuffer(self._packed, dtype=_DTYPE)

    def json(self) -> bytes:
        return msgspec.json.encode(self.tolist())

    def __bytes__(self) -> bytes:
        return self._packed

    def __len__(self) -> int:
        return len(self._packed) // _WIDTH

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def __getitem__(self, index: int | slice) -> Any:
        """An int for an index, TokenIds for a slice (typed Any, as a slice of a sequence must be)."""
        if isinstance(index, slice):
            ids = TokenIds.__new__(TokenIds)
            ids._packed = self.numpy()[index].tobytes()
            return ids
        return int(self.numpy()[index])

    def __add__(self, other: TokenIds) -> TokenIds:
        return TokenIds.concat((self, other))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TokenIds) and self._packed == other._packed

    def __hash__(self) -> int:
        return hash(self._packed)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: Callable[[Any], Any]) -> Any:
        """A list of whole numbers, to whoever documents the schema with pydantic; nothing here imports it."""
        return handler(list[int])

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self[:8])) + (", …" if len(self) > 8 else "")
        return f"TokenIds([{shown}], len={len(self)})"


def _packed(listed: bytes) -> bytes | None:
    """The ids of what is known to be JSON, without a Python int for each; None where it needs a closer look.

    Faster, but numpy lets go of the interpreter lock inside, and getting it back from a busy thread costs more than
    a short list takes.
    """
    items = listed[1:-1]
    if listed[:1] != b"[" or not items or items.translate(None, _PLAIN):
        return None
    # An int64 each: one that is too large for it comes out as its largest.
    ids = np.fromstring(items, dtype=np.int64, sep=",")
    return ids.astype(_DTYPE).tobytes() if int(ids.max()) <= _INT32_MAX else None
