"""Checkpoints: the write-ahead log is moved into the file in a thread of its own, so that no commit waits for it."""

from __future__ import annotations

import logging
import sqlite3
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from sqlalchemy.exc import DBAPIError

from storage.database import Database

_log: Final = logging.getLogger(__name__)
EVERY_BYTES: Final = 4 * 1024 * 1024
LONG_LOG_PAGES: Final = 16_384
"""64 MiB. A log begins anew only when a checkpoint catches up with it, which it may never do beside a busy writer."""


class Checkpoints:
    """`committed` and `close` are for the writer's thread."""

    def __init__(
        self, database: Database, *, every_bytes: int = EVERY_BYTES, long_log_pages: int = LONG_LOG_PAGES
    ) -> None:
        self._database = database
        self._every_bytes = every_bytes
        self._long_log_pages = long_log_pages
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="storage-checkpoint")
        self._running: Future[int] | None = None
        self._bytes = 0

    def committed(self, size: int) -> None:
        """Tell of so many bytes more. Waits for a checkpoint only where the log has become long."""
        self._bytes += size
        if self._bytes < self._every_bytes or not (self._running is None or self._running.done()):
            return
        self._bytes = 0
        if self._running is not None and self._running.result() > self._long_log_pages:
            self._checkpoint()
        self._running = self._thread.submit(self._checkpoint)

    def close(self) -> None:
        self._thread.shutdown()

    def _checkpoint(self) -> int:
        try:
            return self._database.checkpoint()
        except (DBAPIError, sqlite3.Error) as exc:
            _log.warning("no checkpoint: %s", exc)
            return 0
