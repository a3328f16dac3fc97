"""What the writer remembers of sessions, so that it need not ask the database again for each row.

It is true as long as every write goes through the one who remembers; what a failed transaction touched is forgotten,
and all of it with the connection: behind another may be another server, which lacks what the first one took last.

Where several write to one database, a batch holds the rows of its sessions until it is committed, and each row says who
wrote to its session last. Where that was somebody else, what has come since is learned anew, and nothing more: a trace
that has ended never changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import BindParameter, Connection, bindparam, exists, func, null, select, union_all, update

from adapters.schema import Session
from storage import histories, places
from storage import sessions as session_rows
from storage.bases import Bases
from storage.database import Database
from storage.ids import new_id
from storage.parents import Ends
from storage.tables import sessions, tombstones, traces

_MAX_BYTES: Final = 64 * 1024 * 1024
_MAX_SESSIONS: Final = 10_000
_END_BYTES: Final = 300
_NEW: Final = {"ended_seq": None, "key_hash": None}


class SessionMemory:
    """One session: its next turn, its running calls, and (once a call has ended) what its prompts may go on from."""

    __slots__ = ("_missed", "_settled", "bases", "ends", "next_turn", "session_id", "turns")

    def __init__(self, session_id: str, next_turn: int) -> None:
        self.session_id = session_id
        self.next_turn = next_turn
        self.turns: dict[str, int] = {}
        """Turns of the calls that run, by trace id."""
        self.ends: dict[int, Ends] = {}
        """By attempt: a rollout that is tried again goes on from nothing of the attempt before."""
        self.bases = Bases()
        self._missed = next_turn > 0
        self._settled = 0
        """All turns below it were known, or never will end, when they were read last."""

    def missed(self, next_turn: int) -> None:
        """Others wrote to it, and this is its next turn now."""
        self.next_turn = next_turn
        self._missed = True

    def turn_of(self, trace_id: str) -> int:
        """The turn that this call has, or gets."""
        turn = self.turns.get(trace_id)
        if turn is None:
            turn = self.turns[trace_id] = self.next_turn
            self.next_turn += 1
        return turn

    def history(self, db: Connection, attempt: int) -> tuple[Ends, Bases]:
        """What there is to go on from and to be stored against, read where it is not known."""
        if self._missed:
            self._settled = histories.catch_up(db, self.session_id, self._settled, self.ends, self.bases)
            self._missed = False
        return self.ends.setdefault(attempt, Ends()), self.bases

    def __len__(self) -> int:
        """In bytes, about."""
        return len(self.bases) + _END_BYTES * sum(map(len, self.ends.values()))


class Memory:
    """The sessions that were written to last, as many as fit."""

    def __init__(self, database: Database) -> None:
        self._database: Final = database
        self._name: Final = new_id()
        names = sessions.c.keys()
        insert = database.insert(sessions).from_select(names, _UNLESS_DELETED).on_conflict_do_nothing()
        self._insert_session = database.prepare(insert, names)
        self._sign = database.prepare(_SIGN, ("of", "by"))
        self._sessions: OrderedDict[str, SessionMemory] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._bytes = 0
        self._db: Connection | None = None

    def recall(
        self, db: Connection, wanted: Iterable[str], new: Callable[[], Mapping[str, Session]]
    ) -> dict[str, SessionMemory]:
        """Those of the wanted sessions that are not deleted. `new` ones that do not exist are made."""
        if db is not self._db:
            self._forget_all()
            self._db = db
        wanted = sorted(wanted)  # Locks are taken in one order, or two gateways could wait for each other.
        while unknown := self._unknown(db, wanted):
            if self._learn(db, unknown, new()):
                break
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

    def _unknown(self, db: Connection, wanted: Sequence[str]) -> dict[str, bool]:
        """Those to be learned of, and of each whether nobody else can write to it until this transaction ends.

        Where others write too, those that are there are held from here on.
        """
        if self._database.exclusive:
            return dict.fromkeys((each for each in wanted if each not in self._sessions), True)
        written_by = dict(db.execute(_HELD, {"wanted": wanted}).all())
        for session_id in wanted:
            if session_id not in written_by:  # Deleted, or not made yet.
                self.forget(session_id)
        return {
            session_id: session_id in written_by
            for session_id in wanted
            if session_id not in self._sessions or written_by[session_id] != self._name
        }

    def _learn(self, db: Connection, unknown: Mapping[str, bool], new: Mapping[str, Session]) -> bool:
        """False where others have made one of them since it was to be held, or deleted it: then all is asked again."""
        found = db.execute(_KNOWN_OR_DELETED, {"unknown": list(unknown)}).all()
        present = {session_id: next_turn for session_id, next_turn in found if next_turn is not None}
        if not all(unknown[session_id] for session_id in present):
            return False
        self._remember(db, present)
        absent = unknown.keys() - {session_id for session_id, _ in found}
        made = [new[session_id] for session_id in unknown if session_id in absent and session_id in new]
        rows = (session_rows.to_row(session) | _NEW | {"written_by": self._name} for session in made)
        if self._insert_session.execute(db, rows) < len(made):
            return False
        for session in made:
            places.give(db, session)
            self._sessions[session.session_id] = SessionMemory(session.session_id, 0)
        return True

    def _remember(self, db: Connection, present: Mapping[str, int]) -> None:
        for session_id, next_turn in present.items():
            if (known := self._sessions.get(session_id)) is not None:
                known.missed(next_turn)
            else:
                self._sessions[session_id] = SessionMemory(session_id, next_turn)
        if not self._database.exclusive:
            self._sign.execute(db, [{"of": session_id, "by": self._name} for session_id in sorted(present)])


# One look for both: a deleted session has no next turn. The others' is told by what they have: no row has it to keep.
_UNKNOWN: Final[BindParameter[str]] = bindparam("unknown", expanding=True)
_NEXT_TURN: Final = (
    select(func.coalesce(func.max(traces.c.turn) + 1, 0)).where(traces.c.session_id == sessions.c.session_id)
).scalar_subquery()
_KNOWN_OR_DELETED: Final = union_all(
    select(sessions.c.session_id, _NEXT_TURN).where(sessions.c.session_id.in_(_UNKNOWN)),
    select(tombstones.c.session_id, null()).where(tombstones.c.session_id.in_(_UNKNOWN)),
)
# It may have been deleted since that look, and whose process stood still in between is not to bring it back.
_UNLESS_DELETED: Final = select(*(bindparam(column.name, type_=column.type) for column in sessions.c)).where(
    ~exists().where(tombstones.c.session_id == bindparam("session_id", type_=tombstones.c.session_id.type))
)
_HELD: Final = (
    select(sessions.c.session_id, sessions.c.written_by)
    .where(sessions.c.session_id.in_(bindparam("wanted", expanding=True)))
    .order_by(sessions.c.session_id)
    .with_for_update()
)
_SIGN: Final = update(sessions).where(sessions.c.session_id == bindparam("of")).values(written_by=bindparam("by"))
