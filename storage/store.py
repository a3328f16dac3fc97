"""The store: one face for everything that the gateway writes to and reads from the database."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar, Unpack

from sqlalchemy import Connection

from adapters.schema import Reward, Session, SessionStatus, Trace
from storage import ended, gateways, groups, queries, repeats, sessions, usage
from storage.audit import Audit
from storage.backends import Backends
from storage.claims import Claims
from storage.database import READERS, Clock, Database
from storage.durability import DEFAULT_DURABILITY, Durability
from storage.errors import SessionNotFound, TraceMissing, Unavailable
from storage.jobs import Command
from storage.keys import Keys
from storage.looks import Looks
from storage.opening import open_database
from storage.overlay import Overlay
from storage.recording import Recording
from storage.records import (
    EndedQuery,
    GatewayHeard,
    Group,
    GroupQuery,
    Page,
    SessionChanges,
    SessionQuery,
    StoreCounts,
    TraceQuery,
)
from storage.transactions import Transactions
from storage.upkeep import Upkeep
from storage.usage import Usage
from storage.waiters import new_waiter, wait
from storage.weights import Weights

Result = TypeVar("Result")
Arguments = ParamSpec("Arguments")

QUEUE_BYTES: Final = 256 * 1024 * 1024
_COMMAND_BYTES: Final = 1024
_COMMAND_WAITS_S: Final = 5.0
_WHOLE_PAGE: Final = 1_000


class Store:
    """One open database. Its methods are for one event loop; none of them blocks it.

    Writes go through one writer thread, many sharing a transaction; reads through threads and connections of their own.
    Whatever asks the database raises Unavailable where that does not answer.
    """

    def __init__(
        self,
        database: Database,
        spool: Path,
        *,
        gateway_id: str,
        durability: Durability,
        queue_bytes: int,
        clock: Clock,
    ) -> None:
        self.database = database
        self._gateway_id = gateway_id
        self._overlay = Overlay()
        self._records = Recording(
            database, spool, self._overlay, gateway_id=gateway_id, durability=durability, queue_bytes=queue_bytes
        )
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="storage-reader")
        self._looks = Looks(database, self._readers)
        self._clock = clock
        self.backends = Backends(self._read, self._command)
        self.claims = Claims(self._read, self._command, clock)
        self.upkeep = Upkeep(database, self._read, self._command, clock)
        self.keys = Keys(self._read, self._command)
        self.audit = Audit(self._read, self._command)
        self.weights = Weights(database, gateway_id, self._read, self._command)

    @classmethod
    def open(
        cls,
        place: str | Path,
        *,
        gateway_id: str,
        spool: Path | None = None,
        durability: Durability = DEFAULT_DURABILITY,
        queue_bytes: int = QUEUE_BYTES,
    ) -> Store:
        """Open the database of a URL, or the file of a path: migrate it, then start the writer.

        What gateways that died left `running` becomes `interrupted`, and what they left in the spool's folder is
        brought in. Raises CannotOpen, SchemaNewer, AlreadyServed, Unavailable.
        """
        database = open_database(place, durability)
        try:
            return cls.start(
                database, gateway_id=gateway_id, spool=spool, durability=durability, queue_bytes=queue_bytes
            )
        except BaseException:
            database.close()
            raise

    @classmethod
    def start(
        cls,
        database: Database,
        *,
        gateway_id: str,
        spool: Path | None = None,
        durability: Durability = DEFAULT_DURABILITY,
        queue_bytes: int = QUEUE_BYTES,
        clock: Clock | None = None,
    ) -> Store:
        """On a database that is open already, and is the store's from now on.

        `clock` is that of leases and ages; the database's own unless it is told.
        """
        begin = Transactions(database)
        try:
            begin.run(partial(gateways.start, database))
        finally:
            begin.disconnect()
        folder = database.spool if spool is None else spool
        store = cls(
            database,
            folder,
            gateway_id=gateway_id,
            durability=durability,
            queue_bytes=queue_bytes,
            clock=clock or database.now,
        )
        store._records.start()
        return store

    # Calls.

    def begin(self, trace: Trace, session: Session | None = None) -> None:
        """Queue a call's `running` row, and its session's where that is new. Waits for nothing. Raises CannotRecord.

        The row has no request body: that is written once, with the end.
        """
        self._records.begin(trace, session)

    async def finish(self, trace: Trace, *, timeout: float) -> None:  # noqa: ASYNC109 - it ends the wait for one place
        """Queue a call's final row and return when it is committed, or, after `timeout` seconds, safe in the spool.

        While the database is known to be unable, or the spool has anything to be drained before this, nothing waits
        for it. Raises CannotRecord or NotCommitted where neither takes it. Finishing a trace again does nothing. A row
        of a deleted session is dropped, counted, and returns.
        """
        await self._records.finish(trace, timeout)

    # Sessions.

    async def create_session(self, session: Session, key_hash: bytes | None = None) -> Session:
        """Raises SessionExists, or SessionDeleted where the id has a tombstone."""
        return await self._command(session.session_id, partial(sessions.create, session=session, key_hash=key_hash))

    async def session(self, session_id: str) -> Session | None:
        """The session as last written, also where `begin` or `pin_backend` is still queued."""
        queued, pins = self._overlay.queued(session_id), self._overlay.pins()
        found = await self._read(sessions.get, session_id) or queued
        return None if found is None else self._overlay.over(found, pins)

    async def find_session(self, session_id: str) -> Session | None:
        """As `session`, for a call that is waiting. Raises SessionDeleted where the id has a tombstone.

        Calls that ask at the same time share one look, and none is taken where the session is still queued.
        """
        found, pins = self._overlay.queued(session_id), self._overlay.pins()
        if found is None:
            found = await asyncio.shield(self._looks.at(session_id)) or self._overlay.queued(session_id)
        return None if found is None else self._overlay.over(found, pins)

    async def session_by_key(self, key_hash: bytes) -> Session | None:
        pins = self._overlay.pins()
        found = await self._read(sessions.by_key, key_hash)
        return None if found is None else self._overlay.over(found, pins)

    async def tombstoned(self, session_id: str) -> bool:
        """Whether a session of this id was deleted."""
        return await self._read(sessions.is_tombstoned, session_id)

    async def change_session(self, session_id: str, **changes: Unpack[SessionChanges]) -> Session:
        """Raises SessionNotFound, or SessionDeleted where the id has a tombstone."""
        return await self._command(session_id, partial(sessions.change, session_id=session_id, changes=changes))

    async def finish_session(
        self, session_id: str, status: SessionStatus = "finished", rewards: Sequence[Reward] = ()
    ) -> Session:
        """Set its status and `finished_at` (which a second finish keeps), and add rewards. Raises as `add_rewards`."""
        told = tuple(rewards)
        finish = partial(sessions.finish, session_id=session_id, status=status, told=told, clock=self._clock)
        return await self._command(session_id, finish)

    async def add_rewards(self, session_id: str, rewards: Sequence[Reward]) -> Session:
        """Add those that are new by their `reward_id`, or none. The session may be open or have ended.

        Raises as `change_session`, RewardExists, TraceMissing, TooManyRewards.
        """
        told = tuple(rewards)
        return await self._command(session_id, partial(sessions.reward, session_id=session_id, told=told))

    async def delete_session(self, session_id: str) -> bool:
        """Delete it with all its traces and leave a tombstone; what is written for it later is dropped. False: none."""
        deleted = await self._command(session_id, partial(sessions.remove, session_id=session_id))
        self._overlay.forget(session_id)
        return deleted

    def pin_backend(self, session_id: str, backend: str, instead_of: str | None = None) -> None:
        """Queue the session's backend. Of several gateways that do, the first is right. Raises CannotRecord.

        It stays as it is where another gateway has pinned it meanwhile, to none that is to be replaced.
        """
        self._records.pin(session_id, backend, instead_of)

    async def sessions(self, query: SessionQuery) -> Page[Session]:
        """Raises BadCursor."""
        return await self._read(sessions.page, query)

    async def ended_sessions(self, query: EndedQuery) -> Page[Session]:
        """Raises BadCursor; ClaimNotFound and ClaimExpired for the sessions of a claim."""
        return await self._read(ended.page, query, self._clock)

    async def groups(self, query: GroupQuery) -> Page[Group]:
        """Raises BadCursor."""
        return await self._read(groups.page, query)

    # Traces.

    async def traces(self, query: TraceQuery) -> Page[Trace]:
        """Raises BadCursor. A trace that can't be read back is given as far as its columns tell of it: never exact."""
        return await self._read(queries.page, query)

    async def traces_end(self, query: TraceQuery) -> str | None:
        """Where a list of so many traces ends, before any is read. None: it has none. Raises BadCursor."""
        return await self._read(queries.end, query)

    async def trace(self, trace_id: str, session_id: str | None = None) -> Trace | None:
        """Raises CorruptTrace where what is read is not what was written."""
        return await self._read(queries.get, trace_id, session_id)

    async def latest_traces(self, session_id: str, limit: int) -> Sequence[Trace]:
        """The last of a session by turn, the latest first."""
        return await self._read(queries.latest, session_id, limit)

    async def usage(self, session_id: str, attempt: int) -> Usage:
        """What the calls of an attempt have used up; no trace is read for it."""
        return await self._read(usage.of_session, session_id, attempt)

    async def latest_of_key(self, session_id: str, key: str) -> str | None:
        """The last call of a session that had this idempotency key."""
        return await self._read(repeats.latest, session_id, key)

    async def session_id_of(self, trace_id: str) -> str | None:
        """The session of a trace, which is not read for it."""
        return await self._read(queries.session_id_of, trace_id)

    async def whole_session(self, session_id: str) -> tuple[Trace, ...]:
        """All its traces by turn, however many, a page at a time."""
        query = TraceQuery(session_id=session_id, limit=_WHOLE_PAGE)
        found: list[Trace] = []
        while True:
            page = await self.traces(query)
            found += page.items
            if page.next is None:
                return tuple(found)
            query = replace(query, cursor=page.next)

    # The store itself.

    @property
    def shared(self) -> bool:
        """Whether other gateways write to the same database."""
        return not self.database.exclusive

    @property
    def spool_folder(self) -> Path:
        """This process's own."""
        return self._records.spool_folder

    async def gateways(self) -> tuple[GatewayHeard, ...]:
        """Those that write to this database, as they were last heard of; this one too."""
        return await self._read(gateways.heard, self.database)

    async def complete(self) -> bool:
        """Whether all that was answered can be read: no gateway's spool has anything, as far as this one knows."""
        if not self._records.all_written:
            return False
        try:
            return await self._read(gateways.all_drained, self.database, self._gateway_id)
        except Unavailable:
            return False

    def unable(self) -> str | None:
        """Why calls can't be recorded at the moment, neither in the database nor in the spool; null when they can."""
        return self._records.unable()

    def counts(self) -> StoreCounts:
        return self._records.counts()

    async def close(self) -> None:
        """Write everything queued, to the spool if need be, then close the database. A second time it does nothing."""
        answered = await self._records.close()
        if answered:
            await asyncio.to_thread(self._readers.shutdown)
            self.database.close()

    async def _command(self, session_id: str | None, run: Callable[[Connection], Result]) -> Result:
        waiter: asyncio.Future[Result] = new_waiter()
        self._records.command(Command(_COMMAND_BYTES, run, waiter, session_id))
        try:
            return await wait(waiter, _COMMAND_WAITS_S)
        except (SessionNotFound, TraceMissing) as exc:
            if self._records.all_written:
                raise
            raise Unavailable(f"{exc}, as far as is known: not all that was recorded is in the database yet") from exc
        finally:
            if session_id is not None:
                self._looks.renew(session_id)

    def _read(
        self,
        query: Callable[Concatenate[Connection, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> asyncio.Future[Result]:
        def read() -> Result:
            with self.database.read() as db:
                return query(db, *args, **kwargs)

        return asyncio.get_running_loop().run_in_executor(self._readers, read)
