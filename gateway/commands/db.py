"""`db`: brings a database to this program's schema before a gateway does, and says how it stands."""

from __future__ import annotations

from rich.console import Console

from gateway.commands.errors import CommandFailed
from gateway.settings import redacted
from storage.errors import StorageError
from storage.opening import open_database


def upgrade(url: str, console: Console) -> None:
    """Migrate it, or make it. Raises CommandFailed."""
    try:
        open_database(url).close()
    except StorageError as exc:
        raise CommandFailed(str(exc)) from exc
    console.print(f"{redacted(url)} has this program's schema.", highlight=False, soft_wrap=True)
