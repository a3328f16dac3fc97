"""Brings a dead gateway's spool into a database, from wherever it was copied or mounted to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from storage.batch import Batches, Written
from storage.database import Database
from storage.errors import CannotOpen
from storage.jobs import Finish
from storage.spool.backlog import Backlog, Entry
from storage.spool.drain import Drain
from storage.spool.folder import SpoolFolder, is_left
from storage.spool.leftovers import take_in
from storage.spool.segment import SUFFIX
from storage.transactions import Transactions


class SpoolInUse(CannotOpen):
    """A gateway that lives has it."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the traces of a spool, and of what else no database took or nobody could read."""

    imported: int = 0
    there_already: int = 0
    dropped: int = 0
    """Of sessions that were deleted."""
    refused: int = 0
    """Kept in the folder `refused`, each logged."""


def import_spool(place: Path, database: Database) -> Imported:
    """`place` is a spool's folder, or the sub-folder of one gateway in it.

    Nothing goes from the disk before it is in the database; after a break it is simply done again. Raises CannotOpen
    where there is no spool, SpoolInUse; Unavailable, and OSError.
    """
    place = place.resolve()
    folders = _folders(place)
    backlog = Backlog(place if folders[0].path.parent == place else place.parent)
    told = Imported()

    def count(entries: Sequence[Entry], written: Written | None) -> None:
        nonlocal told
        if written is not None:
            traces = sum(isinstance(entry.job, Finish) for entry in entries)
            told = replace(
                told,
                imported=told.imported + written.finished,
                dropped=told.dropped + written.dropped_traces,
                there_already=told.there_already + traces - written.finished - written.dropped_traces,
            )
        backlog.drained(entries)

    transactions = Transactions(database)
    drain = Drain(backlog, run=transactions.run, batches=Batches(database), on_drained=count)
    try:
        take_in(backlog, folders)
        while backlog.readable:
            drain.step()
    finally:
        transactions.disconnect()
        for folder in folders:
            folder.close()
    return replace(told, refused=backlog.refused)


def _folders(place: Path) -> list[SpoolFolder]:
    if not place.is_dir():
        raise CannotOpen(f"there is no folder {place}")
    at_the_top = [place] if any(place.glob(f"*{SUFFIX}")) else []
    found: list[SpoolFolder] = []
    for path in [*sorted(filter(is_left, place.iterdir())), *at_the_top]:
        folder = SpoolFolder.adopt(path)
        if folder is None:
            for other in found:
                other.close()
            raise SpoolInUse(f"{path} is in use by a gateway that runs, which drains it by itself")
        found.append(folder)
    if not found:
        raise CannotOpen(f"{place} is no spool: it has neither {SUFFIX} files nor a gateway's sub-folder")
    return found
