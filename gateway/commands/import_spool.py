"""`db import-spool`: what a dead gateway left in its spool comes into the database."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from gateway.commands.errors import CommandFailed
from gateway.commands.opening import open_existing
from gateway.settings import redacted
from storage.errors import StorageError
from storage.spool.importing import import_spool as bring_in


def import_spool(folder: Path, url: str, console: Console) -> None:
    """Raises CommandFailed, also where a part of it stays behind."""
    try:
        database = open_existing(url)
        try:
            told = bring_in(folder, database)
        finally:
            database.close()
    except StorageError as exc:
        raise CommandFailed(str(exc)) from exc
    except OSError as exc:
        raise CommandFailed(f"{folder} can't be read: {exc.strerror or exc}") from exc
    console.print(
        f"{redacted(url)}: {told.imported} traces imported, {told.there_already} were there already, "
        f"{told.dropped} dropped (their sessions were deleted), {told.refused} refused.",
        highlight=False,
        soft_wrap=True,
    )
    if told.refused:
        raise CommandFailed("what was refused is kept in a folder `refused`; the lines above say where and why")
