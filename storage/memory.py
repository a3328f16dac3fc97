"""What the writer remembers of sessions, so that it need not ask the database again for each row.

It is true as long as every write goes through the one who remembers; what a failed transaction touched is forgotten.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from sqlalchemy import BindParameter, Connection, bindparam, func, null, select, union_all

from adapters.schema import Session
from storage import places
from storage import sessions as session_rows
from storage.bases import Base, Bases
from storage.database import Database
from storage.errors import CorruptTrace
from storage.parents import Ends, unpack
from storage.payloads import Payloads
from storage.tables import sessions, tombstones, traces

_log: Final = logging.getLogger(__name__)
_MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_SESSIONS: Final = 10_000
_END_BYTES: Final = 300
_RELOADED_BASES: Final = 4
_NEW: Final = {"ended_seq": None, "key_hash": None}


class SessionMemory:
    """One session: its next turn, its running calls, and (once a call has ended) what its prompts may go on from."""

    __slots__ = ("bases", "ends", "next_turn", "session_id", "turns")

    def __init__(self, session_id: str, next_turn: int) -> None:
        self.session_id = session_id
        self.next_turn = next_turn
        self.turns: dict[str, int] = {}
        """Turns of the calls that run, by trace id."""
        self.ends: dict[int, Ends] | None = {} if next_turn == 0 else None
        """By attempt: a rollout that is tried again goes on from nothing of the attempt before."""
        self.bases: Bases | None = Bases() if next_turn == 0 else None

    def turn_of(self, trace_id: str) -> int:
        """The turn that this call has, or gets."""
        turn = self.turns.get(trace_id)
        if turn is None:
            turn = self.turns[trace_id] = self.next_turn
            self.next_turn += 1
        return turn

    def history(self, db: Connection, attempt: int) -> tuple[Ends, Bases]:
        if self.ends is None or self.bases is None:
            self.ends, self.bases = _read_ends(db, self.session_id), _read_bases(db, self.session_id)
        return self.ends.setdefault(attempt, Ends()), self.bases

    def __len__(self) -> int:
        """In bytes, about."""
        return len(self.bases or ()) + _END_BYTES * sum(map(len, (self.ends or {}).values()))


class Memory:
    """The sessions that were written to last, as many as fit."""

    def __init__(self, database: Database) -> None:
        self._database = database
        insert = database.insert(sessions).on_conflict_do_nothing()
        self._insert_session = database.prepare(insert, sessions.c.keys())
        self._sessions: OrderedDict[str, SessionMemory] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    def recall(
        self, db: Connection, wanted: Iterable[str], new: Callable[[], Mapping[str, Session]]
    ) -> dict[str, SessionMemory]:
        """Those of the wanted sessions that are not deleted. `new` ones that do not exist are made."""
        if not self._database.exclusive:
            self._forget_all()
        wanted = sorted(wanted)  # Locks are taken in one order, or two gateways could wait for each other.
        unknown = [session_id for session_id in wanted if session_id not in self._sessions]
        if unknown:
            self._learn(db, unknown, new())
        found = {}
        for session_id in wanted:
            if session_id in self._sessions:
                self._sessions.move_to_end(session_id)
                found[session_id] = self._sessions[session_id]
        return found

    def settle(self, touched: Iterable[SessionMemory]) -> None:
        """After a commit: weigh what was touched, and let go of the oldest beyond the bound."""
        for memory in touched:
            if memory.session_id in self._sessions:
                size = len(memory)
                self._bytes += size - self._sizes.get(memory.session_id, 0)
                self._sizes[memory.session_id] = size
        while self._sessions and (self._bytes > _MAX_BYTES or len(self._sessions) > _MAX_SESSIONS):
            self.forget(next(iter(self._sessions)))

    def forget(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)
        self._bytes -= self._sizes.pop(session_id, 0)

    def _forget_all(self) -> None:
        self._sessions.clear()
        self._sizes.clear()
        self._bytes = 0

    def _learn(self, db: Connection, unknown: list[str], new: Mapping[str, Session]) -> None:
        absent = dict.fromkeys(unknown)
        for session_id, next_turn in db.execute(_KNOWN_OR_DELETED, {"unknown": unknown}):
            del absent[session_id]
            if next_turn is not None:
                self._sessions[session_id] = SessionMemory(session_id, next_turn)
        made = [new[session_id] for session_id in absent if session_id in new]
        rows = (session_rows.to_row(session) | _NEW for session in made)
        self._insert_session.execute(db, rows)
        for session in made:
            places.give(db, session)
            self._sessions[session.session_id] = SessionMemory(session.session_id, 0)


# One look for both: a deleted session has no next turn. The others' is told by what they have: no row has it to keep.
_UNKNOWN: Final[BindParameter[str]] = bindparam("unknown", expanding=True)
_NEXT_TURN: Final = (
    select(func.coalesce(func.max(traces.c.turn) + 1, 0)).where(traces.c.session_id == sessions.c.session_id)
).scalar_subquery()
_KNOWN_OR_DELETED: Final = union_all(
    select(sessions.c.session_id, _NEXT_TURN).where(sessions.c.session_id.in_(_UNKNOWN)),
    select(tombstones.c.session_id, null()).where(tombstones.c.session_id.in_(_UNKNOWN)),
)


def _read_ends(db: Connection, session_id: str) -> dict[int, Ends]:
    rows = db.execute(
        select(traces.c.attempt, traces.c.trace_id, traces.c.ends)
        .where(traces.c.session_id == session_id, traces.c.ends.is_not(None))
        .order_by(traces.c.trace_id)
    )
    found: dict[int, Ends] = {}
    for attempt, trace_id, packed in rows:
        of_attempt = found.setdefault(attempt, Ends())
        for end in unpack(trace_id, packed):
            of_attempt.add(end)
    return found


def _read_bases(db: Connection, session_id: str) -> Bases:
    rows = db.execute(
        select(traces)
        .where(traces.c.session_id == session_id, traces.c.digest.is_not(None))
        .order_by(traces.c.turn.desc())
        .limit(_RELOADED_BASES)
    ).all()
    payloads = Payloads(db)
    found = []
    for row in reversed(rows):
        try:
            payload = payloads.of(row)
        except CorruptTrace:  # Whoever reads that trace is told; those after it are stored against another.
            _log.exception("trace %s of session %s can't be a base", row.trace_id, session_id)
        else:
            found.append(Base(row.trace_id, row.depth, payload.text, payload.ids))
    return Bases(found)
