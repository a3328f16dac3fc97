"""The export itself: each part is a request of its own, so that a break costs a part and not the whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rich.console import Console

from gateway.commands.exporting.asked import SUFFIXES, Asked
from gateway.commands.exporting.destination import Destination
from gateway.commands.exporting.finding import partitions_of
from gateway.commands.exporting.meter import Meter
from gateway.commands.exporting.partition import Partition
from gateway.commands.exporting.progress_file import Progress
from gateway.commands.remote import BrokenOff, Remote, Unreachable, chunks

PAUSES: Final = (0.5, 2.0, 8.0, 30.0)
"""Seconds before each new try of a part that broke off."""
_FOLLOWING: Final = "x-next-cursor"


@dataclass(frozen=True, slots=True)
class Export:
    """From a gateway to a destination. Begun anew it goes on where it was, and adds what has come since."""

    remote: Remote
    destination: Destination
    asked: Asked
    console: Console
    part_size: int = 1000
    """Sessions, or traces, of a part."""
    sleep: Callable[[float], None] = time.sleep

    def run(self) -> None:
        """Raises CannotRead, CannotWrite, OtherExport."""
        with self.destination.alone():
            self._run()

    def _run(self) -> None:
        progress = Progress.at(self.destination, self.asked.told())
        partitions = partitions_of(self.remote, self.asked)
        with Meter(self.console) as meter:
            for partition in sorted(partitions, key=lambda partition: partition.folder):
                meter.begin(partition.folder, partitions[partition] if self.asked.of == "samples" else None)
                while self._part(partition, progress, meter):
                    meter.advance(self.part_size)
        parts = "1 new part" if meter.parts == 1 else f"{meter.parts} new parts"
        self.console.out(f"{parts}, {meter.size}, in {self.destination.url}", highlight=False)

    def _part(self, partition: Partition, progress: Progress, meter: Meter) -> bool:
        """Whether there was one more, which has its name now."""
        pauses = iter(PAUSES)
        while True:
            try:
                return self._try(partition, progress, meter)
            except (BrokenOff, Unreachable) as exc:
                pause = next(pauses, None)
                if pause is None or (isinstance(exc, Unreachable) and not meter.parts):
                    raise
                self.sleep(pause)

    def _try(self, partition: Partition, progress: Progress, meter: Meter) -> bool:
        place = progress.place(partition.folder)
        asked = self.asked.query | partition.filters(self.asked.since, self.asked.until)
        asked |= {"limit": str(self.part_size)} | ({} if place.cursor is None else {"cursor": place.cursor})
        with self.remote.stream("/api/export", asked) as answer:
            following = answer.headers.get(_FOLLOWING)
            if following is None:
                return False
            if place.cursor is None:
                progress.save(self.destination)  # So that its first part is never taken for another export's.
            name = f"{partition.folder}/part-{place.parts:05d}{SUFFIXES[self.asked.file_format]}"
            with self.destination.writing(name) as file:
                for chunk in chunks(answer):
                    file.write(chunk)
                    meter.received(len(chunk))
        place.parts, place.cursor = place.parts + 1, following
        progress.save(self.destination)
        meter.parts += 1
        return True
