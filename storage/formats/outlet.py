"""A file that pyarrow writes into, and whoever streams takes the bytes out of."""

from __future__ import annotations

import io


class Outlet(io.RawIOBase):
    """Keeps what was written since it was last asked for, and counts all of it: Parquet's footer has the places."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._written = 0

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        self._parts.append(bytes(data))
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written
