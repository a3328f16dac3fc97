"""A PostgreSQL is looked at before it is used, and brought to this program's schema by one gateway at a time."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from storage.errors import CannotOpen
from storage.migrate import migrate
from storage.postgres.connection import wait_for_others
from storage.postgres.errors import sqlstate

OLDEST: Final = 14
_LOOK: Final = text(
    "SELECT current_setting('server_version_num')::int / 10000, current_setting('server_encoding'),"
    " pg_is_in_recovery(), current_user, current_schema()"
)
# Any number, as long as no other program that uses this database has the same.
_LOCK: Final = text("SELECT pg_advisory_xact_lock(7355608020261121)")
_MAY_NOT: Final = "42501"


def upgrade(db: Connection, where: str) -> None:
    """Raises CannotOpen, SchemaNewer."""
    with db.begin():
        version, encoding, is_standby, user, schema = db.execute(_LOOK).one()
    if version < OLDEST:
        raise CannotOpen(f"{where} is PostgreSQL {version}; it takes {OLDEST} or newer")
    if encoding != "UTF8":
        raise CannotOpen(
            f"{where} has the encoding {encoding}, which can't hold every text: make it with CREATE DATABASE … "
            "ENCODING 'UTF8' TEMPLATE template0"
        )
    if is_standby:
        raise CannotOpen(f"{where} is a replica, which can only be read: name the primary")
    wait_for_others(db)
    try:
        with db.begin():
            db.execute(_LOCK)
            migrate(db)
    except DBAPIError as exc:
        if sqlstate(exc) != _MAY_NOT:
            raise
        raise CannotOpen(
            f"{where}: the role {user} may not make tables there: "
            f"GRANT CREATE, USAGE ON SCHEMA {schema or 'public'} TO {user}, or give it a database of its own"
        ) from exc
