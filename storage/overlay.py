"""Sessions as they will be once what is queued is committed, so that a caller reads what it has just written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from adapters.schema import Session
from storage.jobs import Begin, Job, Pin


class Overlay:
    """Knows the queued sessions and pins from `add` to `remove`. For the event loop alone."""

    def __init__(self) -> None:
        self._sessions: dict[str, Begin] = {}
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

    def forget(self, session_id: str) -> None:
        self._sessions.pop(session_id, None)
        self._pins.pop(session_id, None)

    def queued(self, session_id: str) -> Session | None:
        begun = self._sessions.get(session_id)
        return None if begun is None else begun.session

    def pins(self) -> Mapping[str, Pin]:
        """Those queued now. Who is about to read takes them along: one may be committed just after it was read past."""
        return dict(self._pins)

    def over(self, session: Session, before: Mapping[str, Pin]) -> Session:
        """The session that was read, `before` which these pins were queued."""
        pin = self._pins.get(session.session_id) or before.get(session.session_id)
        return session if pin is None else replace(session, backend=pin.backend)
