"""Brings a database to this program's schema, and refuses one that is ahead of it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from storage.errors import SchemaNewer

_MIGRATIONS: Final = Path(__file__).parent / "migrations"


def migrate(db: Connection, to: str = "head") -> None:
    """Run what is missing, in the caller's transaction. Raises SchemaNewer, and changes nothing then.

    `to` is a revision to stop at, for the tests of those after it.
    """
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    config.attributes["connection"] = db
    script = ScriptDirectory.from_config(config)
    known = {revision.revision for revision in script.walk_revisions()}
    present = set(MigrationContext.configure(db).get_current_heads())
    if newer := present - known:
        raise SchemaNewer(
            f"the database has schema {', '.join(sorted(newer))}, which this program does not know: "
            "a newer rollout-gateway has migrated it. Start that version, or another database."
        )
    if present != set(script.get_heads()):
        command.upgrade(config, to)
