"""The writer's connection: one transaction after the other, and whether the database takes any at the moment."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection

from storage.database import Database, is_trouble
from storage.errors import Unavailable

Result = TypeVar("Result")

_log: Final = logging.getLogger(__name__)


class Transactions:
    """For the writer's thread, except `unable`, which anyone may read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._db: Connection | None = None
        self.unable: str | None = None
        """Why the last transaction could not be written, in the database's words; null when it could."""

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Do `work` in a transaction that is committed on return.

        Raises Unavailable where the database as a whole is the reason (locked, full, gone), so that trying again
        may help; else what `work` raises.
        """
        try:
            if self._db is None:
                self._db = self._database.write_connection()
            with self._db.begin():
                result = work(self._db)
        except Exception as exc:
            if not is_trouble(exc):
                raise
            self.disconnect()
            reason = str(exc.__cause__ or exc)
            if self.unable is None:
                _log.warning("the database can't be written: %s", reason)
            self.unable = reason
            raise Unavailable(f"the database can't be written: {reason}") from exc
        if self.unable is not None:
            self.unable = None
            _log.warning("the database can be written again")
        return result

    def disconnect(self) -> None:
        """The next transaction has a connection of its own making."""
        if self._db is not None:
            self._db.invalidate()
            self._db.close()
            self._db = None
