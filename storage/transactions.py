"""The writer's connection: one transaction after the other, and whether the database takes any at the moment."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from storage.database import Database
from storage.errors import Unavailable

Result = TypeVar("Result")

_CONFLICTS: Final = 5
_HANGS_S: Final = 2.0
"""A transaction that takes longer is taken for one that hangs, until it comes back."""
_log: Final = logging.getLogger(__name__)


class Transactions:
    """For the writer's thread, except `unable`, which anyone may read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._db: Connection | None = None
        self._why: str | None = None
        self._asked_at: float | None = None
        self._failed_at = float("-inf")
        self._answered = False

    @property
    def unable(self) -> str | None:
        """Why nothing can be written at the moment, in the database's words where it has some; null when it can."""
        asked_at = self._asked_at
        if asked_at is not None and (silent_for := time.monotonic() - asked_at) > _HANGS_S:
            return f"it has not answered for {silent_for:.0f} s"
        return self._why

    @property
    def may_try(self) -> bool:
        """Whether to write is worth a try: it can be written, or answers again, and so may be able to."""
        return self._why is None or self._answered

    def has_failed_since(self, moment: float) -> bool:
        """Whether the database was found to be away after that moment, and was not found to be back."""
        return self._why is not None and self._failed_at > moment

    def run(self, work: Callable[[Connection], Result], *, proves: bool = True) -> Result:
        """Do `work` in a transaction that is committed on return. `proves`: after it no reason for failures is left.

        Where another transaction was in the way `work` is done anew, so it forgets what it did when it fails.
        Raises Unavailable where the database as a whole is the reason (locked, full, gone), so that trying again
        may help; else what `work` raises.
        """
        self._asked_at = time.monotonic()
        try:
            try:
                return self._run(work, proves)
            except Unavailable as exc:
                cause = exc.__cause__
                if not (isinstance(cause, DBAPIError) and cause.connection_invalidated):
                    raise
                # A connection that broke while nobody used it is found out by its use.
                return self._run(work, proves)
        finally:
            self._asked_at = None

    def _run(self, work: Callable[[Connection], Result], proves: bool) -> Result:
        try:
            result = self._try(work)
        except Exception as exc:
            if not self._database.is_trouble(exc):
                raise
            self.disconnect()
            reason = str(exc.__cause__ or exc).strip().partition("\n")[0]  # What drivers say on more lines is advice.
            if self._why is None:
                _log.warning("the database can't be written: %s", reason)
            self._why = reason
            self._failed_at = time.monotonic()
            self._answered = False
            raise Unavailable(f"the database can't be written: {reason}") from exc
        self._answered = True
        if self._why is not None and proves:
            self._why = None
            _log.warning("the database can be written again")
        return result

    def _try(self, work: Callable[[Connection], Result]) -> Result:
        """Again where only another transaction was in the way, and as trouble where they are always."""
        for _ in range(_CONFLICTS):
            try:
                return self._once(work)
            except DBAPIError as exc:
                if not self._database.is_conflict(exc):
                    raise
                _log.info("gave way to another transaction: %s", exc.orig)
        return self._once(work)

    def _once(self, work: Callable[[Connection], Result]) -> Result:
        self._database.check()
        if self._db is None:
            self._db = self._database.write_connection()
        with self._db.begin():
            return work(self._db)

    def disconnect(self) -> None:
        """The next transaction has a connection of its own making."""
        if self._db is not None:
            self._db.invalidate()
            self._db.close()
            self._db = None
