"""`db check` and `db backup`: whether what was recorded can be read back, and a copy for the day when it can't."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from rich.console import Console
from rich.filesize import decimal

from gateway.commands.errors import CommandFailed, WrongUse
from gateway.commands.opening import open_existing
from storage.check import check as checked
from storage.errors import StorageError
from storage.location import file_of, is_postgres


def check(url: str, console: Console) -> None:
    """Reads every trace. Raises CommandFailed where one is not what was written."""
    traces = corrupt = 0
    try:
        database = open_existing(url)
        try:
            for session in checked(database):
                traces += session.traces
                corrupt += len(session.corrupt)
                for error in session.corrupt:
                    console.print(str(error), highlight=False, markup=False, soft_wrap=True)
        finally:
            database.close()
    except StorageError as exc:
        raise CommandFailed(str(exc)) from exc
    if corrupt:
        raise CommandFailed(f"{corrupt} of {traces} traces can't be read back; all others can")
    console.print(f"All {traces} traces can be read back as they were written.", highlight=False)


def backup(url: str, to: Path, console: Console) -> None:
    """A copy of a SQLite file as it is at one moment, also beside a gateway that writes to it. Raises CommandFailed."""
    if is_postgres(url):
        raise WrongUse("a PostgreSQL database is backed up by its own means: pg_dump --format=custom")
    unfinished = to.with_name(f"{to.name}.{os.getpid()}")
    try:
        path = file_of(url)
        if to.exists():
            raise WrongUse(f"{to} exists already, and is left as it is: name another file")
        with (
            closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(unfinished)) as target,
        ):
            # In one go, which keeps no writer waiting; part by part it would begin anew with each commit.
            source.backup(target)
        unfinished.rename(to)
    except StorageError as exc:
        raise CommandFailed(str(exc)) from exc
    except (OSError, sqlite3.Error) as exc:
        raise CommandFailed(f"{to} can't be written from {path}: {exc}") from exc
    finally:
        unfinished.unlink(missing_ok=True)
    console.print(f"{to} has all of {path}, {decimal(to.stat().st_size)}.", highlight=False, soft_wrap=True)
