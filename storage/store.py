"""The store: one face for everything that the gateway writes to and reads from the database."""

from __future__ import annotations

from typing import Final, Unpack

from adapters.schema import Session, SessionStatus, Trace
from storage.records import (
    Page,
    SessionChanges,
    SessionQuery,
    StoreCounts,
    StoredBackend,
    TraceQuery,
)

QUEUE_BYTES: Final = 256 * 1024 * 1024


class Store:
    """One open database. Its methods are for one event loop; none of them blocks it.

    Writes go through one writer thread, many sharing a transaction; reads through threads and connections of their own.
    """

    @classmethod
    def open(cls, url: str, *, gateway_id: str, queue_bytes: int = QUEUE_BYTES) -> Store:
        """Open `sqlite:///rollouts.db` or a bare path: migrate it, then start the writer.

        What gateways that died left `running` becomes `interrupted`. Raises CannotOpen, SchemaNewer, AlreadyServed.
        """
        raise NotImplementedError

    def begin(self, trace: Trace, session: Session | None = None) -> None:
        """Queue a call's `running` row, and its session's where that is new. Raises CannotRecord; waits for nothing."""
        raise NotImplementedError

    async def finish(self, trace: Trace, *, timeout: float) -> None:
        """Queue a call's final row and return when it is committed.

        Raises NotCommitted after `timeout` seconds (the row stays queued and is still written; finishing a trace again
        does nothing) and CannotRecord where it can't be. A row of a deleted session is dropped, counted, and returns.
        """
        raise NotImplementedError

    async def create_session(self, session: Session, key_hash: bytes | None = None) -> Session:
        """Raises SessionExists, or SessionDeleted where the id has a tombstone."""
        raise NotImplementedError

    async def session(self, session_id: str) -> Session | None:
        """The session as last written, also where `begin` or `pin_backend` is still queued."""
        raise NotImplementedError

    async def session_by_key(self, key_hash: bytes) -> Session | None:
        raise NotImplementedError

    async def tombstoned(self, session_id: str) -> bool:
        """Whether a session of this id was deleted."""
        raise NotImplementedError

    async def change_session(self, session_id: str, **changes: Unpack[SessionChanges]) -> Session:
        """Raises SessionNotFound, or SessionDeleted where the id has a tombstone."""
        raise NotImplementedError

    async def finish_session(self, session_id: str, status: SessionStatus = "finished") -> Session:
        """Set its status and `finished_at` (which a second finish keeps). Raises as `change_session`."""
        raise NotImplementedError

    async def delete_session(self, session_id: str) -> bool:
        """Delete it with all its traces and leave a tombstone; what is written for it later is dropped. False: none."""
        raise NotImplementedError

    def pin_backend(self, session_id: str, backend: str) -> None:
        """Queue the session's backend. Raises CannotRecord."""
        raise NotImplementedError

    async def sessions(self, query: SessionQuery) -> Page[Session]:
        """Raises BadCursor."""
        raise NotImplementedError

    async def traces(self, query: TraceQuery) -> Page[Trace]:
        """Raises BadCursor, and CorruptTrace where a trace read is not the one written."""
        raise NotImplementedError

    async def trace(self, trace_id: str, session_id: str | None = None) -> Trace | None:
        """Raises CorruptTrace."""
        raise NotImplementedError

    async def backends(self) -> tuple[StoredBackend, ...]:
        """Those that an administrator added, by name."""
        raise NotImplementedError

    async def add_backend(self, backend: StoredBackend) -> None:
        """Add it, or replace the one of its name."""
        raise NotImplementedError

    async def remove_backend(self, name: str) -> bool:
        raise NotImplementedError

    def report_spool(self, depth: int) -> None:
        """How many traces this gateway's spool has; the next heartbeat tells it to the others."""
        raise NotImplementedError

    def counts(self) -> StoreCounts:
        raise NotImplementedError

    async def close(self) -> None:
        """Write everything queued, then close the database."""
        raise NotImplementedError
