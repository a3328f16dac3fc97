"""How many files and sockets the process may have open: as many as the machine's owner allows."""

from __future__ import annotations

import logging
import resource
from typing import Final

logger = logging.getLogger(__name__)

# More than one process of Python can serve calls with.
_ENOUGH: Final = 65_536
_FEW: Final = 4096
# The database's, the listener's, the log's, and what reads of large files need.
_OTHERS: Final = 128
# The agent's connection and the backend's.
_OF_A_CALL: Final = 2


def raise_descriptor_limit() -> int:
    """Up to the hard limit; the soft one is often 1,024 by custom alone. How many there may be now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        limit = soft if soft != resource.RLIM_INFINITY else _ENOUGH
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        limit = wanted
    if limit < _FEW:
        logger.warning(
            "no more than %d files and sockets may be open (ulimit -Hn), which is enough for %d calls at a time",
            limit,
            connections_for(limit),
        )
    return limit


def connections_for(descriptors: int) -> int:
    """How many agents' connections, each with one to a backend, are sure to find descriptors."""
    return max(1, (descriptors - _OTHERS) // _OF_A_CALL)
