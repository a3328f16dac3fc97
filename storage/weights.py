"""Which weights each backend has and had, and the pauses in which they are changed: the same for all gateways."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Literal

from sqlalchemy import Connection, delete, insert, literal, select, tuple_, update

from storage import cursors
from storage.database import Database
from storage.gateways import HEARD_FOR, SILENT_FOR
from storage.ids import new_id
from storage.records import PAGE_LIMIT, Page
from storage.tables import gates, gateways, pauses, weight_events, weights
from storage.texts import Text
from storage.upkeep import Read, Write

WeightSource = Literal["administrator", "engine", "detection"]
"""Who said so: a caller of ours, an answer of the engine's, or the server when it was asked what it is."""
PauseMode = Literal["hold", "reject"]
EngineMode = Literal["wait", "keep", "abort"]


@dataclass(frozen=True, slots=True)
class WeightEvent:
    """From then on a backend had this version."""

    event_id: str
    at: datetime
    backend: str
    weight_version: str
    previous: str | None
    source: WeightSource
    gateway_id: str | None = None


@dataclass(frozen=True, slots=True)
class BackendWeights:
    """The version that a backend has now, and since when."""

    backend: str
    weight_version: str
    source: WeightSource
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class StoredPause:
    """New calls to these backends wait, or are turned away, until it is released or its time is up."""

    pause_id: str
    owner: str | None
    backends: tuple[str, ...] | None
    """By name; null: all, those that come later too."""
    mode: PauseMode
    move: bool
    """Sessions of a paused backend go to another meanwhile."""
    max_hold: float | None
    """Seconds that a call may wait; null: for as long as the pause lasts."""
    max_held: int
    """Calls that may wait at one gateway."""
    engine: EngineMode | None
    """How the engines themselves were paused; null: they were not."""
    created_at: datetime
    expires_at: datetime
    released: tuple[str, ...] = ()
    """Backends that were let go before the rest."""
    remaining: float = 0.0
    """Seconds that it still had when it was read, by the database's clock."""

    def covers(self, backend: str) -> bool:
        return (self.backends is None or backend in self.backends) and backend not in self.released


@dataclass(frozen=True, slots=True)
class GateHeard:
    """How one gateway heeds the pauses, as it last told."""

    gateway_id: str
    live: bool
    """It was heard of within the last half minute; one that was not may be dead, or cut off."""
    pauses: tuple[str, ...] = ()
    """Those that it heeds."""
    in_flight: Mapping[str, int] = field(default_factory=dict)
    """Calls by their backend."""
    held: Mapping[str, int] = field(default_factory=dict)
    """Calls that wait, by the pause."""


@dataclass(frozen=True, slots=True)
class Known:
    """What all gateways are to heed, read in one transaction: who opens for a version has that version."""

    pauses: tuple[StoredPause, ...]
    weights: tuple[BackendWeights, ...]
    overdue: bool
    """There are pauses whose time is up and that nobody has ended yet."""


@dataclass(frozen=True, slots=True)
class EventQuery:
    """The oldest come first. A field that is null does not filter."""

    limit: int = PAGE_LIMIT
    cursor: str | None = None
    backend: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Weights:
    """A store's part for weights, for one event loop."""

    def __init__(self, database: Database, gateway_id: str, read: Read, write: Write) -> None:
        self._database = database
        self._gateway_id = gateway_id
        self._read = read
        self._write = write

    def known(self) -> Awaitable[Known]:
        return self._read(known, self._database)

    def change(self, changes: Sequence[WeightEvent]) -> Awaitable[None]:
        """Each is an event where it is news."""
        return self._write(None, partial(change, database=self._database, changes=changes))

    def events(self, query: EventQuery) -> Awaitable[Page[WeightEvent]]:
        """Raises BadCursor."""
        return self._read(events, query)

    def pause(self, pause: StoredPause, ttl: float) -> Awaitable[StoredPause]:
        """Begin it, or begin its time anew where it is there already. `ttl` is seconds from now."""
        return self._write(None, partial(begin, database=self._database, pause=pause, ttl=ttl))

    def release(self, pause_ids: Sequence[str]) -> Awaitable[tuple[str, ...]]:
        """Those of them that were still there."""
        return self._write(None, partial(release, pause_ids=pause_ids))

    def let_go(self, pause_id: str, backends: Sequence[str]) -> Awaitable[None]:
        """Take these backends out of a pause."""
        return self._write(None, partial(let_go, pause_id=pause_id, backends=backends))

    def expire(self) -> Awaitable[tuple[StoredPause, ...]]:
        """End those whose time is up. Of several gateways that do one gets each."""
        return self._write(None, partial(expire, database=self._database))

    def tell_gate(self, gate: GateHeard) -> Awaitable[None]:
        return self._write(None, partial(tell_gate, database=self._database, gate=gate))

    def gates(self) -> Awaitable[tuple[GateHeard, ...]]:
        """Of all other gateways that live, or may."""
        return self._read(heard, self._database, self._gateway_id)


def known(db: Connection, database: Database) -> Known:
    now = database.now(db)
    rows = db.execute(select(pauses).order_by(pauses.c.created_at, pauses.c.pause_id))
    all_pauses = [_pause(row._asdict(), now) for row in rows]
    versions = db.execute(select(weights).order_by(weights.c.backend))
    return Known(
        tuple(pause for pause in all_pauses if pause.remaining > 0),
        tuple(BackendWeights(**row._asdict()) for row in versions),
        any(pause.remaining <= 0 for pause in all_pauses),
    )


def change(db: Connection, database: Database, changes: Sequence[WeightEvent]) -> None:
    for event in changes:
        row = {
            "backend": event.backend,
            "weight_version": event.weight_version,
            "source": event.source,
            "changed_at": event.at,
        }
        put = database.insert(weights).values(row).on_conflict_do_nothing().returning(weights.c.backend)
        made = db.execute(put).first() is not None
        of_it = select(weights).where(weights.c.backend == event.backend)
        before = db.execute(of_it.with_for_update()).one()
        if not made and before.weight_version == event.weight_version:
            continue
        told = asdict(event) | {"previous": None if made else before.weight_version}
        db.execute(insert(weight_events), told)
        # What a database that was away hears of too late was so then, and is not so now.
        if not made and event.at >= before.changed_at:
            db.execute(update(weights).where(weights.c.backend == event.backend).values(row))


def events(db: Connection, query: EventQuery) -> Page[WeightEvent]:
    c = weight_events.c
    wanted = select(weight_events).order_by(c.at, c.event_id).limit(query.limit + 1)
    if query.cursor is not None:
        at, event_id = cursors.unpack(query.cursor, tuple[datetime, str])
        wanted = wanted.where(tuple_(c.at, c.event_id) > tuple_(literal(at, c.at.type), literal(event_id, Text)))
    if query.backend is not None:
        wanted = wanted.where(c.backend == query.backend)
    if query.since is not None:
        wanted = wanted.where(c.at >= query.since)
    if query.until is not None:
        wanted = wanted.where(c.at < query.until)
    found = [WeightEvent(**row._asdict()) for row in db.execute(wanted)]
    shown = tuple(found[: query.limit])
    return Page(shown, cursors.pack((shown[-1].at, shown[-1].event_id)) if len(found) > query.limit else None)


def begin(db: Connection, database: Database, pause: StoredPause, ttl: float) -> StoredPause:
    now = database.now(db)
    row = asdict(pause) | {"created_at": now, "expires_at": now + timedelta(seconds=ttl)}
    row.pop("remaining")
    put = database.insert(pauses).values(row)
    renewed = {name: value for name, value in row.items() if name not in ("pause_id", "created_at")}
    db.execute(put.on_conflict_do_update(index_elements=[pauses.c.pause_id], set_=renewed))
    db.execute(delete(gates).where(gates.c.told_at < now - HEARD_FOR))
    stands = db.execute(select(pauses).where(pauses.c.pause_id == pause.pause_id)).one()
    return _pause(stands._asdict(), now)


def release(db: Connection, pause_ids: Sequence[str]) -> tuple[str, ...]:
    gone = [one for one in pause_ids if db.execute(delete(pauses).where(pauses.c.pause_id == one)).rowcount]
    return tuple(gone)


def let_go(db: Connection, pause_id: str, backends: Sequence[str]) -> None:
    of_it = pauses.c.pause_id == pause_id
    row = db.execute(select(pauses.c.released).where(of_it).with_for_update()).first()
    if row is not None:
        released = tuple(dict.fromkeys((*row.released, *backends)))
        db.execute(update(pauses).where(of_it).values(released=released))


def expire(db: Connection, database: Database) -> tuple[StoredPause, ...]:
    now = database.now(db)
    over = db.execute(select(pauses).where(pauses.c.expires_at <= now)).all()
    gone = release(db, [row.pause_id for row in over])
    return tuple(_pause(row._asdict(), now) for row in over if row.pause_id in gone)


def tell_gate(db: Connection, database: Database, gate: GateHeard) -> None:
    row = {
        "gateway_id": gate.gateway_id,
        "told_at": database.now(db),
        "pauses": gate.pauses,
        "in_flight": dict(gate.in_flight),
        "held": dict(gate.held),
    }
    db.execute(database.insert(gates).values(row).on_conflict_do_update(index_elements=[gates.c.gateway_id], set_=row))


def heard(db: Connection, database: Database, but: str) -> tuple[GateHeard, ...]:
    now = database.now(db)
    living = select(gateways.c.gateway_id, gateways.c.heartbeat_at).where(
        gateways.c.heartbeat_at > now - HEARD_FOR, gateways.c.gateway_id != but
    )
    told = {row.gateway_id: row for row in db.execute(select(gates))}
    return tuple(_gate(row.gateway_id, row.heartbeat_at > now - SILENT_FOR, told) for row in db.execute(living))


def event(backend: str, version: str, source: WeightSource, at: datetime, gateway_id: str | None = None) -> WeightEvent:
    """What was there before is for the database to say."""
    return WeightEvent(new_id(), at, backend, version, None, source, gateway_id)


def _gate(gateway_id: str, live: bool, told: Mapping[str, object]) -> GateHeard:
    row = told.get(gateway_id)
    if row is None:
        return GateHeard(gateway_id, live)
    return GateHeard(gateway_id, live, row.pauses, row.in_flight, row.held)  # type: ignore[attr-defined]


def _pause(row: dict[str, object], now: datetime) -> StoredPause:
    pause = StoredPause(**row)  # type: ignore[arg-type]
    return StoredPause(**row, remaining=(pause.expires_at - now).total_seconds())  # type: ignore[arg-type]
