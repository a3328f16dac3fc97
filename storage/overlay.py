"""Sessions as they will be once what is queued is committed, so that a caller reads what it has just written."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from adapters.schema import Session
from storage.jobs import Begin, Job, Pin

_SPOOLED: Final = 10_000


class Overlay:
    """Knows the queued sessions and pins from `add` to `remove`. For the event loop alone.

    Of sessions that went into the spool it knows the last ones, as many as a long outage's memory is worth.
    """

    def __init__(self) -> None:
        self._sessions: dict[str, Begin] = {}
        self._spooled: OrderedDict[str, Session] = OrderedDict()
        self._pins: dict[str, Pin] = {}

    def add(self, job: Job) -> None:
        if isinstance(job, Begin) and job.session is not None:
            self._sessions.setdefault(job.session_id, job)
        elif isinstance(job, Pin):
            self._pins[job.session_id] = job

    def remove(self, job: Job) -> None:
        if isinstance(job, Begin) and self._sessions.get(job.session_id) is job:
            del self._sessions[job.session_id]
        elif isinstance(job, Pin) and self._pins.get(job.session_id) is job:
            del self._pins[job.session_id]

    def spooled(self, job: Job) -> None:
        """The spool has it, in the writer's place."""
        if isinstance(job, Begin) and job.session is not None:
            self._spooled.setdefault(job.session_id, job.session)
            if len(self._spooled) > _SPOOLED:
                self._spooled.popitem(last=False)
        elif isinstance(job, Pin) and job.session_id in self._spooled:
            self._spooled[job.session_id] = replace(self._spooled[job.session_id], backend=job.backend)
        self.remove(job)

    def drained(self, session_ids: Iterable[str]) -> None:
        for session_id in session_ids:
            self._spooled.pop(session_id, None)

    def forget(self, session_id: str) -> None:
        self._spooled.pop(session_id, None)
        self._sessions.pop(session_id, None)
        self._pins.pop(session_id, None)

    def queued(self, session_id: str) -> Session | None:
        begun = self._sessions.get(session_id)
        return self._spooled.get(session_id) if begun is None else begun.session

    def pins(self) -> Mapping[str, Pin]:
        """Those queued now. Who is about to read takes them along: one may be committed just after it was read past."""
        return dict(self._pins)

    def over(self, session: Session, before: Mapping[str, Pin]) -> Session:
        """The session that was read, `before` which these pins were queued."""
        pin = self._pins.get(session.session_id) or before.get(session.session_id)
        return session if pin is None else replace(session, backend=pin.backend)
