"""The command as it can be typed again in the shell that started it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

_NAME: Final = "rollout-gateway"


def typed(started_as: str, folder: Path) -> str:
    """Its bare name if that finds it (or nothing better is known), else its path, seen from the folder if inside.

    `started_as` is `sys.argv[0]`: the script that pip made, or a module's file where Python was told `-m`.
    """
    script = folder / started_as
    found = shutil.which(_NAME)
    if script.name != _NAME or not script.is_file() or (found is not None and script.samefile(found)):
        return _NAME
    return str(script.relative_to(folder) if script.is_relative_to(folder) else script)
