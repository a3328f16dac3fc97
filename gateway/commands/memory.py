"""What the process does with memory that it has freed: it is used again, whichever thread asks."""

from __future__ import annotations

import ctypes
import os
from typing import Final

_M_ARENA_MAX: Final = -8
_ARENAS: Final = 2
_OWNERS_WORD: Final = "MALLOC_ARENA_MAX"


def share_memory() -> bool:
    """Let all threads share two arenas. False where there is no such word (musl's libc), or the owner said another.

    glibc gives eight to a core, and what one thread has freed in its own serves no other: a gateway whose loop, writer
    and readers take turns with large answers grows for hours. Called before the threads begin.
    """
    if _OWNERS_WORD in os.environ:
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_ARENA_MAX, _ARENAS))
