"""What sessions come to as rows: a few small sessions or one large one are read, made in a thread, and let go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from adapters.schema import Session, Trace
from gateway.api.encoding import weight_of
from storage.formats.shapes import Shape
from storage.records import EndedQuery, Page
from storage.samples.build import samples_of
from storage.samples.options import SampleOptions

# About how much is made at once, in ids and bytes: small sessions share a trip to a thread, and a record batch.
_ENOUGH: Final = 256 * 1024
_PAGE: Final = 100


class EndedStore(Protocol):
    """Where sessions are read from, whole."""

    async def ended_sessions(self, query: EndedQuery) -> Page[Session]: ...
    async def whole_session(self, session_id: str) -> tuple[Trace, ...]: ...


@dataclass(frozen=True, slots=True)
class WholeSession:
    session: Session
    traces: tuple[Trace, ...]

    @property
    def weight(self) -> int:
        return sum(map(weight_of, self.traces))


@dataclass(frozen=True, slots=True)
class SampleRows:
    """A session's samples, in a shape. For a thread: it takes as long as there are tokens."""

    shape: Shape
    options: SampleOptions

    def of(self, sessions: Sequence[WholeSession]) -> list[dict[str, Any]]:
        """Raises CannotShape."""
        return [row for whole in sessions for row in self._rows(whole)]

    def _rows(self, whole: WholeSession) -> list[dict[str, Any]]:
        samples = samples_of(whole.session, whole.traces, self.options)
        return self.shape.rows(samples, whole.session, whole.traces)


@dataclass(slots=True)
class Walk:
    """A way through sessions in the order of their ends. `query.cursor` is how far it has come."""

    store: EndedStore
    query: EndedQuery

    async def page(self, limit: int = _PAGE) -> Page[Session]:
        """What follows, and a step behind it. An empty page is the end for now."""
        page = await self.store.ended_sessions(replace(self.query, limit=limit))
        self.query = replace(self.query, cursor=page.next or self.query.cursor)
        return page

    async def rest(self) -> AsyncIterator[Session]:
        """All that had ended when it comes to the end."""
        while True:
            page = await self.page()
            for session in page.items:
                yield session
            if len(page.items) < _PAGE:
                return


@dataclass(slots=True)
class Reader:
    """Sessions with their traces, as many at once as are enough. It keeps nothing of what it has given."""

    store: EndedStore
    sessions: AsyncIterator[Session]

    async def __call__(self) -> list[WholeSession]:
        """None at the end."""
        held: list[WholeSession] = []
        weight = 0
        async for session in self.sessions:
            held.append(WholeSession(session, await self.store.whole_session(session.session_id)))
            weight += held[-1].weight
            if weight >= _ENOUGH:
                break
        return held


async def each(sessions: Sequence[Session]) -> AsyncIterator[Session]:
    for session in sessions:
        yield session
