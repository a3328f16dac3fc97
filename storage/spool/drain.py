"""Brings what is spooled into the database: in its order, each record once, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from sqlalchemy import Connection

from storage import gateways
from storage.batch import Batches, Written
from storage.errors import Unavailable
from storage.spool.backlog import Backlog, Entry

Result = TypeVar("Result")

# Small, so that what is asked of the writer beside it does not wait long.
_BATCH = 128
_BATCH_BYTES = 4 * 1024 * 1024


class Run(Protocol):
    """A transaction that is committed on return. Raises Unavailable; else what the work raises."""

    def __call__(self, work: Callable[[Connection], Result]) -> Result: ...


class Drain:
    """For one thread."""

    def __init__(
        self,
        backlog: Backlog,
        *,
        run: Run,
        batches: Batches,
        on_drained: Callable[[Sequence[Entry], Written | None], None],
    ) -> None:
        """`on_drained` is told of entries that are in the database, or, with a null, were put aside."""
        self._backlog = backlog
        self._run = run
        self._batches = batches
        self._on_drained = on_drained

    def step(self) -> None:
        """The next batch. Raises Unavailable, or OSError where the spool can't be read: it is tried again from there.

        A kill between the commit and this process's knowing of it does no harm: what is there already is not written
        again.
        """
        entries = self._backlog.read(_BATCH, _BATCH_BYTES)
        if entries:
            self._write(entries)
        for folder in self._backlog.emptied():
            try:
                self._run(partial(gateways.forget, gateway_id=folder.owner.gateway_id))
            except Unavailable:
                self._backlog.empty(folder)
                raise
            folder.close()

    def _write(self, entries: Sequence[Entry]) -> None:
        """In one transaction. What the database refuses is found by halves, and put aside alone."""
        jobs = [entry.job for entry in entries if entry.job is not None]
        written: Written | None = Written(finished=0, dropped_late=0)
        try:
            if jobs:
                written = self._run(partial(self._batches.write, jobs=jobs))
        except Exception as exc:
            self._batches.forget(job.session_id for job in jobs)
            if isinstance(exc, Unavailable):
                raise
            if len(entries) > 1:
                self._write(entries[: len(entries) // 2])
                self._write(entries[len(entries) // 2 :])
                return
            self._backlog.put_aside(entries[0], exc)
            written = None
        self._on_drained(entries, written)
