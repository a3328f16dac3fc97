"""Files that were opened, and what others find in their place."""

from __future__ import annotations

import os
from pathlib import Path


def is_at(path: Path, opened: os.stat_result) -> bool:
    """Whether a file that was opened is still what others find there."""
    try:
        return os.path.samestat(path.stat(), opened)
    except OSError:
        return False
