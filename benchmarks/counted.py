"""`serve` that writes how many tasks live into the file FILE at each SIGUSR1: `python -m benchmarks.counted FILE …`."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from types import FrameType

from gateway.cli import main

if __name__ == "__main__":
    file = Path(sys.argv.pop(1))

    def count(_: int, __: FrameType | None) -> None:
        unfinished = file.with_suffix(".new")
        unfinished.write_text(str(len(asyncio.all_tasks())))
        unfinished.replace(file)

    signal.signal(signal.SIGUSR1, count)
    main()
