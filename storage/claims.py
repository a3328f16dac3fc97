"""Claims: consumers share the ended sessions among themselves, each session going to one of them for good.

A claim is made in two steps, so that looking for work never keeps the writer from its calls: `offers` only reads, and
`take`, in a transaction that holds the sessions' rows, takes those units that are still free. A unit is given whole or
not at all.

Leases end by the clock of the database, whatever those of the gateways say, and rows are held before they are judged,
so that no session is given twice. All hold them in one order, sessions before claims, each by their ids. SQLite, with
its one writer, needs none of that and does none of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from sqlalchemy import Connection, delete, insert, select, update

from storage.database import Clock
from storage.errors import ClaimAcknowledged, ClaimExpired, ClaimNotFound
from storage.ids import new_id
from storage.offers import Offers, Units, still_free
from storage.records import Claim, ClaimRequest
from storage.tables import AnyRow, claims, deliveries, sessions
from storage.upkeep import Read, Write

_c: Final = sessions.c


class Claims:
    """A store's claims, for one event loop."""

    def __init__(self, read: Read, write: Write, clock: Clock) -> None:
        self._read = read
        self._write = write
        self._clock = clock
        self._offers = Offers()

    async def take(self, request: ClaimRequest) -> Claim | None:
        """What has ended and nobody of this consumer has; None where there is nothing now."""
        while units := await self._read(self._offers.find, request, self._clock):
            claim = await self._write(None, partial(take, request=request, units=units, clock=self._clock))
            if claim is not None:
                return claim
            # Others were faster, all of them; what they left is looked for anew.
        return None

    def get(self, claim_id: str) -> Awaitable[Claim]:
        """Raises ClaimNotFound."""
        return self._read(get, claim_id, self._clock)

    def acknowledge(self, claim_id: str) -> Awaitable[Claim]:
        """The consumer never gets these sessions again. Raises ClaimNotFound, ClaimExpired."""
        return self._write(None, partial(acknowledge, claim_id=claim_id, clock=self._clock))

    def release(self, claim_id: str) -> Awaitable[Claim]:
        """Offer its sessions again. Raises ClaimNotFound, ClaimAcknowledged."""
        return self._write(None, partial(release, claim_id=claim_id, clock=self._clock))

    def extend(self, claim_id: str, lease_s: float) -> Awaitable[Claim]:
        """Let its lease end so many seconds from now. Raises ClaimNotFound, ClaimExpired, ClaimAcknowledged."""
        return self._write(None, partial(extend, claim_id=claim_id, lease_s=lease_s, clock=self._clock))


def take(db: Connection, request: ClaimRequest, units: Units, clock: Clock) -> Claim | None:
    """Those of the units that are still free, as a claim. None where none is."""
    offered = [session_id for unit in units for session_id in unit]
    _hold(db, request, offered)
    now = clock(db)
    free = set(db.scalars(still_free(request, offered, now)))
    taken = [session_id for unit in units if free.issuperset(unit) for session_id in unit]
    if not taken:
        return None
    claim_id, until = new_id(), now + timedelta(seconds=request.lease_s)
    row = {"claim_id": claim_id, "consumer": request.consumer, "unit": request.unit}
    db.execute(insert(claims), row | {"status": "held", "leased_until": until})
    theirs = (deliveries.c.consumer == request.consumer) & deliveries.c.session_id.in_(taken)
    lost = select(deliveries.c.claim_id).where(theirs)
    db.execute(update(claims).where(claims.c.claim_id.in_(lost)).values(status="expired"))
    db.execute(delete(deliveries).where(theirs))
    delivery = {"consumer": request.consumer, "claim_id": claim_id, "delivered_at": None}
    db.execute(insert(deliveries), [delivery | {"session_id": session_id} for session_id in taken])
    return _claim(db, claim_id, now)


def get(db: Connection, claim_id: str, clock: Clock) -> Claim:
    """Raises ClaimNotFound."""
    return _claim(db, claim_id, clock(db))


def acknowledge(db: Connection, claim_id: str, clock: Clock) -> Claim:
    """Its sessions are delivered. Again it does nothing. Raises ClaimNotFound, ClaimExpired."""
    row, now = _row(db, claim_id, hold=True), clock(db)
    if row.status != "acknowledged":
        _check_lease(row, now)
        _change(db, claim_id, status="acknowledged")
        db.execute(update(deliveries).where(deliveries.c.claim_id == claim_id).values(delivered_at=now))
    return _claim(db, claim_id, now)


def release(db: Connection, claim_id: str, clock: Clock) -> Claim:
    """Its sessions are offered again, as they are already where it ran out.

    Raises ClaimNotFound, ClaimAcknowledged.
    """
    row = _row(db, claim_id, hold=True)
    if row.status == "acknowledged":
        raise ClaimAcknowledged(claim_id)
    if row.status == "held":
        _change(db, claim_id, status="released")
        db.execute(delete(deliveries).where(deliveries.c.claim_id == claim_id))
    return _claim(db, claim_id, clock(db))


def extend(db: Connection, claim_id: str, lease_s: float, clock: Clock) -> Claim:
    """Its lease ends so many seconds from now. Raises ClaimNotFound, ClaimExpired, ClaimAcknowledged."""
    row, now = _row(db, claim_id, hold=True), clock(db)
    if row.status == "acknowledged":
        raise ClaimAcknowledged(claim_id)
    _check_lease(row, now)
    _change(db, claim_id, leased_until=now + timedelta(seconds=lease_s))
    return _claim(db, claim_id, now)


def check(db: Connection, claim_id: str, clock: Clock) -> None:
    """That its sessions are its own. Raises ClaimNotFound, ClaimExpired."""
    row = _row(db, claim_id)
    if row.status != "acknowledged":
        _check_lease(row, clock(db))


def _hold(db: Connection, request: ClaimRequest, session_ids: Sequence[str]) -> None:
    """Whether these are free stays as it is until this transaction ends."""
    db.execute(select(_c.session_id).where(_c.session_id.in_(session_ids)).order_by(_c.session_id).with_for_update())
    of_claims = select(deliveries.c.claim_id).where(
        deliveries.c.consumer == request.consumer, deliveries.c.session_id.in_(session_ids)
    )
    had = select(claims.c.claim_id).where(claims.c.claim_id.in_(of_claims))
    db.execute(had.order_by(claims.c.claim_id).with_for_update())


def _row(db: Connection, claim_id: str, *, hold: bool = False) -> AnyRow:
    """Raises ClaimNotFound."""
    wanted = select(claims).where(claims.c.claim_id == claim_id)
    row = db.execute(wanted.with_for_update() if hold else wanted).first()
    if row is None:
        raise ClaimNotFound(claim_id)
    return row


def _check_lease(row: AnyRow, now: datetime) -> None:
    """Also where nobody else has come yet: who is late must not count on it. Raises ClaimExpired."""
    if row.status == "released":
        raise ClaimExpired(row.claim_id, "was released, and its sessions are offered again: make a new claim")
    if row.status == "expired" or row.leased_until <= now:
        raise ClaimExpired(
            row.claim_id,
            f"ran out at {row.leased_until:%Y-%m-%dT%H:%M:%SZ}, and its sessions are offered again: make a new claim, "
            "with a longer lease or one that is extended in time",
        )


def _change(db: Connection, claim_id: str, **values: object) -> None:
    db.execute(update(claims).where(claims.c.claim_id == claim_id).values(values))


def _claim(db: Connection, claim_id: str, now: datetime) -> Claim:
    """Raises ClaimNotFound."""
    row = _row(db, claim_id)
    of_it = (
        select(_c.session_id, _c.group_id)
        .join(deliveries, deliveries.c.session_id == _c.session_id)
        .where(deliveries.c.claim_id == claim_id)
        .order_by(_c.ended_seq)
    )
    found = db.execute(of_it).all()
    by_group = row.unit == "group"
    return Claim(
        claim_id=claim_id,
        consumer=row.consumer,
        unit=row.unit,
        status="expired" if row.status == "held" and row.leased_until <= now else row.status,
        expires_at=row.leased_until,
        session_ids=tuple(session.session_id for session in found),
        group_ids=tuple(dict.fromkeys(session.group_id for session in found)) if by_group else (),
    )
