"""One batch of jobs in one transaction: turns given, parents found, payloads stored against their bases."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection, String, bindparam, or_, select, tuple_, update

from adapters.schema import Session, Trace
from storage import codec, deltas, repeats, usage
from storage.bases import Base
from storage.database import Database
from storage.jobs import Begin, Finish, Pin, Record
from storage.memory import Memory, SessionMemory
from storage.parents import ends_of, pack
from storage.tables import sessions, traces

_NOT_OVERWRITTEN: Final = {"session_id", "trace_id", "turn"}


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a batch."""

    finished: int
    dropped_late: int
    dropped_traces: int = 0
    """Those of the dropped that had ended."""


class _Rows:
    """The rows of one batch, by statement."""

    def __init__(self) -> None:
        self.running: list[dict[str, Any]] = []
        self.final: list[dict[str, Any]] = []
        self.pins: list[dict[str, Any]] = []


class Batches:
    """Writes batches. Not thread-safe: it belongs to the writer."""

    def __init__(self, database: Database) -> None:
        self._memory = Memory(database)
        self._encoder = deltas.Encoder()
        columns = traces.c.keys()
        self._insert_running = database.prepare(database.insert(traces).on_conflict_do_nothing(), columns)
        final = database.insert(traces)
        upsert = final.on_conflict_do_update(
            index_elements=[traces.c.session_id, traces.c.trace_id],
            set_={c.name: final.excluded[c.name] for c in traces.c if c.name not in _NOT_OVERWRITTEN},
            # What has its payload may be somebody's base, and stays.
            where=traces.c.digest.is_(None),
        )
        self._upsert_final = database.prepare(upsert, columns)
        self._pin = database.prepare(_PIN, ("of", "to", "was"))

    def write(self, db: Connection, jobs: Sequence[Record]) -> Written:
        """In the caller's transaction. On any error nothing of it is remembered, and the caller rolls back.

        Where the caller then fails to commit it calls `forget`.
        """
        try:
            return self._write(db, jobs)
        except BaseException:
            self.forget(job.session_id for job in jobs)
            raise

    def _write(self, db: Connection, jobs: Sequence[Record]) -> Written:
        found = self._memory.recall(db, {job.session_id for job in jobs}, partial(_sessions_of, jobs))
        ended = {job.trace.trace_id for job in jobs if isinstance(job, Finish)}
        done = self._recall_running(db, jobs, found)
        rows = _Rows()
        dropped = dropped_traces = 0
        for job in jobs:
            memory = found.get(job.session_id)
            if memory is None:
                dropped += 1
                dropped_traces += isinstance(job, Finish)
            elif isinstance(job, Pin):
                rows.pins.append({"of": job.session_id, "to": job.backend, "was": job.instead_of})
            elif isinstance(job, Begin) and job.trace.trace_id not in done:
                turn = memory.turn_of(job.trace.trace_id)
                if job.trace.trace_id not in ended:
                    rows.running.append(_running_row(job.trace, turn))
            elif isinstance(job, Finish) and job.trace.trace_id not in done:
                done.add(job.trace.trace_id)
                self._add_final(db, job.trace, memory, rows)
        self._execute(db, rows)
        self._memory.settle(found.values())
        return Written(finished=len(rows.final), dropped_late=dropped, dropped_traces=dropped_traces)

    def forget(self, session_ids: Iterable[str | None]) -> None:
        """What is remembered of them may not be what the database has."""
        for session_id in session_ids:
            if session_id is not None:
                self._memory.forget(session_id)

    def _recall_running(self, db: Connection, jobs: Sequence[Record], found: dict[str, SessionMemory]) -> set[str]:
        """Learn the turns of calls that began before the memory did. Gives those that have ended already."""
        begun = {job.trace.trace_id for job in jobs if isinstance(job, Begin) and not job.again}
        unknown = [
            (job.session_id, job.trace.trace_id)
            for job in jobs
            if (isinstance(job, Finish) or (isinstance(job, Begin) and job.again))
            and job.session_id in found
            and job.trace.trace_id not in found[job.session_id].turns
            and job.trace.trace_id not in begun
        ]
        done: set[str] = set()
        if unknown:
            key = tuple_(traces.c.session_id, traces.c.trace_id)
            wanted = select(traces.c.session_id, traces.c.trace_id, traces.c.turn, traces.c.digest)
            for session_id, trace_id, turn, digest in db.execute(wanted.where(key.in_(unknown))):
                if digest is None:
                    found[session_id].turns[trace_id] = turn
                else:
                    done.add(trace_id)
        return done

    def _add_final(self, db: Connection, trace: Trace, memory: SessionMemory, rows: _Rows) -> None:
        known_ends, bases = memory.history(db, trace.attempt)
        turn = memory.turn_of(trace.trace_id)
        del memory.turns[trace.trace_id]
        row = codec.columns(trace) | usage.columns(trace) | repeats.columns(trace)
        row["turn"] = turn
        parent = known_ends.parent_of(trace.prompt_token_ids)
        if parent is not None and trace.parent_trace_id is None:
            row |= {"parent_trace_id": parent.trace_id, "parent_index": parent.index}
        payload = codec.payload(trace)
        base = bases.pick(payload, row["parent_trace_id"])
        depth = 0 if base is None else base.depth + 1
        row |= self._payload_columns(payload, base, depth)
        ends = ends_of(trace)
        row["ends"] = pack(ends)
        rows.final.append(row)
        for end in ends:
            known_ends.add(end)
        bases.add(Base(trace.trace_id, depth, payload.text, payload.ids), extended=base)

    def _payload_columns(self, payload: codec.Payload, base: Base | None, depth: int) -> dict[str, Any]:
        encode = self._encoder.encode
        return {
            "base_trace_id": None if base is None else base.trace_id,
            "depth": depth,
            "digest": payload.digest(),
            "text": encode(payload.text, None if base is None else base.text),
            "ids": encode(payload.ids, None if base is None else base.ids) if payload.ids else None,
            "logprobs": self._encoder.encode_floats(payload.logprobs) if payload.logprobs else None,
            "experts": encode(payload.experts) if payload.experts else None,
        }

    def _execute(self, db: Connection, rows: _Rows) -> None:
        """A statement for all rows of a kind, in the order of session ids."""
        self._insert_running.execute(db, _ordered(rows.running))
        self._upsert_final.execute(db, _ordered(rows.final))
        self._pin.execute(db, sorted(rows.pins, key=itemgetter("of")))


_PIN: Final = (
    update(sessions)
    .where(
        sessions.c.session_id == bindparam("of"),
        or_(sessions.c.backend.is_(None), sessions.c.backend == bindparam("was", type_=String)),
    )
    .values(backend=bindparam("to"))
)


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["session_id"]))


def _sessions_of(jobs: Sequence[Record]) -> dict[str, Session]:
    """The sessions that these jobs make where they are missing. A trace without one is not lost for that."""
    made: dict[str, Session] = {}
    for job in jobs:
        if isinstance(job, Begin | Finish) and job.session is not None:
            made.setdefault(job.session_id, job.session)
    for job in jobs:
        if isinstance(job, Begin | Finish) and job.session_id not in made:
            made[job.session_id] = Session(session_id=job.session_id, created_at=job.trace.started_at)
    return made


def _running_row(trace: Trace, turn: int) -> dict[str, Any]:
    row = codec.columns(trace) | repeats.columns(trace)
    row |= {"prompt_tokens": None, "completion_tokens": None}
    row |= {"turn": turn, "base_trace_id": None, "depth": 0, "digest": None, "ends": None}
    row |= {"text": deltas.plain(codec.running_payload(trace).text), "ids": None, "logprobs": None, "experts": None}
    return row
