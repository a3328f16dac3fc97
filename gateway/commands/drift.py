"""`drift`: where prompts stop extending what was sampled and why, for one session or summed by run and agent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from gateway.commands.remote import Filters, Remote
from gateway.commands.screen import Screen
from gateway.commands.table import Column, printable

_LINE_END: Final = "⏎"


class _Side(msgspec.Struct):
    text: str | None


class _Break(msgspec.Struct):
    """What is shown of a break."""

    trace_id: str
    turn: int | None
    earlier_turn: int | None
    position: int
    cause: str
    detail: str
    earlier: _Side
    later: _Side


class _Counts(msgspec.Struct):
    calls: int
    starts: int
    extends: int
    breaks: int
    unjudged: int
    causes: dict[str, int]
    exact_share: float | None = None

    def __add__(self, other: _Counts) -> _Counts:
        extends, breaks = self.extends + other.extends, self.breaks + other.breaks
        return _Counts(
            calls=self.calls + other.calls,
            starts=self.starts + other.starts,
            extends=extends,
            breaks=breaks,
            unjudged=self.unjudged + other.unjudged,
            causes=dict((Counter(self.causes) + Counter(other.causes)).most_common()),
            exact_share=extends / (extends + breaks) if extends + breaks else None,
        )


class _Call(msgspec.Struct):
    broken: _Break | None = None


class _Session(msgspec.Struct):
    session_id: str
    counts: _Counts
    calls: list[_Call]


class _Example(msgspec.Struct):
    session_id: str
    broken: msgspec.Raw


class _Agent(msgspec.Struct):
    run_id: str | None
    agent: str | None
    sessions: int
    counts: _Counts
    examples: dict[str, _Example]

    def __add__(self, other: _Agent) -> _Agent:
        """Of the same agent in other sessions."""
        sessions, counts = self.sessions + other.sessions, self.counts + other.counts
        return _Agent(self.run_id, self.agent, sessions, counts, other.examples | self.examples)


class _Page(msgspec.Struct):
    items: list[_Agent]
    sessions: int
    next: str | None = None
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Drift:
    """A running gateway's report, and where to show it."""

    remote: Remote
    screen: Screen

    def session(self, session_id: str) -> None:
        """Each break of one session, with the two texts. Raises CannotRead."""
        path = f"/api/sessions/{quote(session_id, safe='')}/drift"
        if self.screen.as_json:
            return self.screen.json(self.remote.get(path, {}))
        told = self.remote.read(path, {}, _Session)
        self._line(f"{told.session_id}: {_summed(told.counts)}")
        for broken in (call.broken for call in told.calls if call.broken is not None):
            self._break(broken)
        return None

    def runs(self, filters: Filters) -> None:
        """All sessions that the filters choose, summed by run and agent. Raises CannotRead."""
        pages = list(self._pages(filters))
        agents = _merged(agent for page in pages for agent in page.items)
        complete = all(page.complete for page in pages)
        if self.screen.as_json:
            sessions = sum(page.sessions for page in pages)
            return self.screen.json(msgspec.json.encode({"items": agents, "sessions": sessions, "complete": complete}))
        self._table(agents)
        for agent in agents:
            for cause, example in agent.examples.items():
                self._line("")
                caller = agent.agent or "nobody named"
                self._line(f"{cause}, {agent.counts.causes[cause]} of {caller}, for example in {example.session_id}:")
                self._break(msgspec.json.decode(example.broken, type=_Break))
        return self.screen.note_incomplete(complete=complete)

    def _pages(self, filters: Filters) -> Iterator[_Page]:
        page = self.remote.read("/api/drift", filters, _Page)
        yield page
        while page.next is not None:
            page = self.remote.read("/api/drift", {**filters, "cursor": page.next}, _Page)
            yield page

    def _table(self, agents: list[_Agent]) -> None:
        counts = [agent.counts for agent in agents]
        columns = (
            Column("run", 0, tuple(agent.run_id for agent in agents)),
            Column("agent", 1, tuple(agent.agent for agent in agents)),
            Column("sessions", 5, tuple(str(agent.sessions) for agent in agents)),
            Column("calls", 4, tuple(str(each.calls) for each in counts)),
            Column("extend", 2, tuple(map(_percent, counts))),
            Column("breaks", 3, tuple(str(each.breaks) for each in counts)),
            Column("causes", 6, tuple(_causes(each) for each in counts)),
        )
        self.screen.table(columns)

    def _break(self, broken: _Break) -> None:
        call = f"call {broken.turn}" if broken.turn is not None else broken.trace_id
        self._line(f"{call} broke at token {broken.position}: {broken.detail} ({broken.cause})")
        self._line(f"  before  {broken.earlier.text or ''}")
        self._line(f"  now     {broken.later.text or ''}")

    def _line(self, text: str) -> None:
        self.screen.line(printable(text.replace("\n", _LINE_END)))


def _merged(agents: Iterable[_Agent]) -> list[_Agent]:
    """Pages are of different sessions, so what they count is added."""
    known: dict[tuple[str | None, str | None], _Agent] = {}
    for agent in agents:
        name = agent.run_id, agent.agent
        known[name] = known[name] + agent if name in known else agent
    return sorted(known.values(), key=lambda each: (each.run_id or "", -each.counts.breaks, each.agent or ""))


def _summed(counts: _Counts) -> str:
    continued = counts.extends + counts.breaks
    calls = "1 call" if counts.calls == 1 else f"{counts.calls} calls"
    unjudged = f", {counts.unjudged} can't be judged" if counts.unjudged else ""
    if not continued:
        return f"{calls}, none of which repeats an earlier one{unjudged}"
    return f"{calls}, {counts.extends} of {continued} extend what was sampled{unjudged}"


def _percent(counts: _Counts) -> str:
    return "–" if counts.exact_share is None else f"{counts.exact_share:.1%}"


def _causes(counts: _Counts) -> str:
    return ", ".join(f"{cause} {count}" for cause, count in counts.causes.items())
