"""Holds what backends said and what agents got against what the database has: lost, doubled, wrong.

**lost**: an agent was told that its answer is complete, and there is no such trace. **dup**: two traces for one
attempt, or two of a session with one turn. **wrong**: a trace whose ids, logprobs, text, session, order, parent,
weights or status are not what happened.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tests.faults import canary
from tests.faults.records import Emission, Heard, Row
from tests.faults.said import Said, said

Wrong = Callable[[str], None]
"""Told what is wrong with the trace at hand."""

_ENDED = frozenset({"ok", "client_disconnected", "backend_error", "interrupted", "rejected"})


@dataclass(slots=True)
class Findings:
    """Each a sentence. A faultless run has none."""

    lost: list[str] = field(default_factory=list)
    dup: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def none(self) -> bool:
        return not (self.lost or self.dup or self.wrong)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a scenario's fault excuses."""

    running_of: Collection[str] = ()
    """Gateways killed so lately that nobody has missed them: their calls may still be `running`."""
    untraced: bool = False
    """A call that got no answer may have no trace: its gateway was killed before the row was in."""
    order: bool = True
    """False: two spools are drained beside each other, so calls of one session that were spooled at two gateways have
    their turns, and know their parents, in the order of the drain.
    """


NOTHING: Final = Allowed()


class Ledger:
    """All that happened in one run."""

    def __init__(
        self,
        emissions: Iterable[Emission],
        heard: Iterable[Heard],
        rows: Sequence[Row],
        reads: Callable[[Heard], Said] = said,
    ) -> None:
        """`reads` is how agents understand an answer; it raises msgspec.DecodeError where they can't."""
        self._reads = reads
        self._emissions: dict[int, list[Emission]] = defaultdict(list)
        for emission in emissions:
            self._emissions[emission.number].append(emission)
        self._heard = {each.number: each for each in heard}
        self._rows = rows
        self._of: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            self._of[row.number].append(row)

    def findings(self, allowed: Allowed = NOTHING) -> Findings:
        found = Findings()
        for number, heard in self._heard.items():
            self._call(found, number, heard, allowed)
        for row in self._rows:
            self._row(found, row, allowed)
        self._turns(found, allowed)
        return found

    def _call(self, found: Findings, number: int, heard: Heard, allowed: Allowed) -> None:
        rows = self._of[number]
        try:
            told = self._reads(heard)
        except msgspec.DecodeError as exc:
            found.wrong.append(f"call {number}: its agent got what is no JSON: {exc}: {heard.body[:200]!r}")
            return
        if len(rows) > 1:
            found.dup.append(f"call {number} has the traces {', '.join(row.trace_id for row in rows)}")
        if not rows:
            if told.finished:
                found.lost.append(f"call {number} of {heard.session} was answered and has no trace")
            elif not allowed.untraced and (heard.trace_id is not None or self._emissions[number]):
                found.lost.append(f"call {number} of {heard.session} (status {heard.status}) has no trace")
            return
        for row in rows:
            self._answer(found, heard, told, row, allowed)

    def _answer(self, found: Findings, heard: Heard, told: Said, row: Row, allowed: Allowed) -> None:
        """What the agent got, beside the trace."""

        def wrong(what: str) -> None:
            found.wrong.append(f"call {heard.number}, trace {row.trace_id}: {what}")

        if row.session_id != heard.session:
            wrong(f"it is in {row.session_id} and was of {heard.session}")
        if heard.trace_id is not None and row.trace_id != heard.trace_id:
            wrong(f"its agent was told the id {heard.trace_id}")
        if told.finished and told.error is None and row.status != "ok":
            wrong(f"its agent has the whole answer, and it says {row.status}")
        sound = all(emission.sound for emission in self._emissions[heard.number])
        if sound and not row.text.startswith(told.text) and row.status not in ("running", "interrupted"):
            wrong(f"its agent read {told.text!r}, it has {row.text!r}")
        expected = self._parent(heard)
        late = not allowed.order and row.parent_trace_id is None
        if row.status == "ok" and sound and row.parent_trace_id != expected and not late:
            wrong(f"it goes on from {expected}, and says {row.parent_trace_id}")

    def _parent(self, heard: Heard) -> str | None:
        """The trace of the latest answer in the call's history that is sure of its tokens."""
        before = heard.continues
        while before is not None:
            rows = self._of[before]
            if len(rows) == 1 and rows[0].fidelity == "exact":
                return rows[0].trace_id
            before = self._heard[before].continues
        return None

    def _row(self, found: Findings, row: Row, allowed: Allowed) -> None:
        """The trace, beside what was said to the gateway."""

        def wrong(what: str) -> None:
            found.wrong.append(f"trace {row.trace_id} of call {row.number}: {what}")

        if row.number not in self._heard:
            wrong("nobody made such a call")
            return
        if row.status not in _ENDED and row.gateway_id not in allowed.running_of:
            wrong(f"it is {row.status}")
        strangers = ({canary.owner(token_id) for token_id in row.ids} - {row.number}) & self._heard.keys()
        if strangers:
            wrong(f"it has tokens of the calls {strangers}")
        session = self._heard[row.number].session
        for token_id in row.prompt_token_ids or ():
            other = self._heard.get(canary.owner(token_id))
            if other is None or other.session != session:
                wrong(f"its prompt has a token of call {canary.owner(token_id)}, which is not of its session")
                break
        if row.ids or row.status == "ok":
            self._tokens(wrong, row)

    def _tokens(self, wrong: Wrong, row: Row) -> None:
        emissions = self._emissions[row.number]
        if not emissions:
            wrong("no backend was asked")
            return
        if not all(emission.sound for emission in emissions):
            if row.fidelity == "exact" and row.ids != emissions[-1].ids:
                wrong("its backend lied, and it says exact")
            return
        # Logprobs tell one emission from another. A trace without any is of the last.
        emission = next((each for each in emissions if row.logprobs[:1] == each.logprobs[:1]), emissions[-1])
        ids, logprobs = emission.ids, emission.logprobs
        if row.status == "ok" and (row.ids != ids or row.text != emission.text):
            wrong(f"{len(row.ids)} ids are not the {len(ids)} that were said")
        if row.ids != ids[: len(row.ids)] or len(row.ids) > emission.told:
            told = [(each.backend, each.told, each.logprobs[:1]) for each in emissions]
            had = f"{row.status}, {len(row.ids)} ids, logprobs from {row.logprobs[:1]} on"
            wrong(f"{row.ids[:4]}… were not said in this order: {had}, where {told} were told")
        if row.logprobs_fidelity == "exact" and row.logprobs != logprobs[: len(row.ids)]:
            wrong("its logprobs are not those of its ids")
        if row.prompt_token_ids is not None and row.prompt_token_ids != emission.prompt:
            wrong("its prompt is not the one that the backend was sent")
        if row.status == "ok" and (row.fidelity, row.logprobs_fidelity) != ("exact", "exact"):
            wrong(f"it is {row.fidelity}, its logprobs {row.logprobs_fidelity}: {row.fidelity_reason}")
        if row.fidelity == "exact" and len(row.ids) < len(ids):
            wrong("tokens are missing, and it says exact")
        self._weights(wrong, row, emission)

    def _weights(self, wrong: Wrong, row: Row, emission: Emission) -> None:
        if row.status != "ok":
            return
        if not emission.weight_versions:
            if row.weight_version is not None:
                wrong(f"nobody told which weights sampled it, and it says {row.weight_version}")
            return
        versions = {version for version, _, _ in emission.weight_versions}
        expected = next(iter(versions)) if len(versions) == 1 else "mixed"
        if row.weight_version != expected:
            wrong(f"weights {expected} sampled it, and it says {row.weight_version}")
        spans = tuple((span.version, span.start, span.end) for span in row.choices[0].weight_versions or ())
        if spans and spans != emission.weight_versions:
            wrong(f"its spans are {spans}, not {emission.weight_versions}")

    def _turns(self, found: Findings, allowed: Allowed) -> None:
        """Turns: one each, and rising with the calls, which agents make one after the other."""
        by_session: dict[str, list[Row]] = defaultdict(list)
        for row in self._rows:
            by_session[row.session_id].append(row)
        for session, rows in by_session.items():
            turns = Counter(row.turn for row in rows)
            doubled = [turn for turn, times in turns.items() if times > 1]
            if doubled:
                found.dup.append(f"session {session} has the turns {doubled} more than once")
            in_order = sorted(rows, key=lambda row: row.number)
            told = [-1 if row.turn is None else row.turn for row in in_order]
            if allowed.order and told != sorted(told):
                found.wrong.append(f"session {session} has its calls in the order {told}")
