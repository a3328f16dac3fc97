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


def revisions() -> list[str]:
    """All that this program knows, the first one first."""
    return [revision.revision for revision in _script(_config()).walk_revisions()][::-1]


def migrate(db: Connection, to: str = "head") -> None:
    """Run what is missing, in the caller's transaction. Raises SchemaNewer, and changes nothing then.

    `to` is a revision to stop at, for the tests of those after it.
    """
    config = _config()
    config.attributes["connection"] = db
    present = set(MigrationContext.configure(db).get_current_heads())
    if newer := present - set(revisions()):
        raise SchemaNewer(
            f"the database has schema {', '.join(sorted(newer))}, which this program does not know: "
            "a newer rollout-gateway has migrated it. Start that version, or another database."
        )
    if present != set(_script(config).get_heads()):
        command.upgrade(config, to)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return config


def _script(config: Config) -> ScriptDirectory:
    return ScriptDirectory.from_config(config)
