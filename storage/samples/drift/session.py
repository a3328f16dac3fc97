"""Where a session's prompts stop extending what was sampled: one pass over its calls in the order of their turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from adapters.schema import Session, Trace
from adapters.token_ids import TokenIds
from storage.parents import Ends, ends_of
from storage.samples.agents import agent_of, caller_of
from storage.samples.chosen import superseded
from storage.samples.drift.causes import Parting, likely_cause
from storage.samples.drift.history import Reader, RequestOf
from storage.samples.drift.ids import common, meeting
from storage.samples.drift.repeats import Call, Calls, Repeated
from storage.samples.drift.report import Break, CallDrift, SessionDrift, Side
from storage.samples.drift.summary import counts_of

Decode = Callable[[TokenIds], str | None]
"""The text of ids, special tokens included; None where it is not known."""

_BEFORE: Final = 16
_AFTER: Final = 48
"""Ids that are shown before and after a break."""
_DECODED: Final = 4096
"""Ids that are decoded at most of what differs."""


def drift_of(
    session: Session,
    traces: Iterable[Trace],
    request_of: RequestOf,
    decoder: Callable[[Trace], Decode | None],
) -> SessionDrift:
    """`traces` are the session's, in any order. `decoder` gives the tokenizer of the backend that a trace came from."""
    walk = _Walk(session, Reader(request_of), decoder)
    told = tuple(walk.step(trace) for trace in _counted(traces))
    return SessionDrift(session.session_id, session.run_id, counts_of(told), told)


def _counted(traces: Iterable[Trace]) -> list[Trace]:
    """Those of the rollout's latest attempt, without what no rollout is made of, in the order of turns."""
    own = list(traces)
    left_out = superseded(own)
    latest = max((trace.attempt for trace in own), default=0)
    kept = [
        trace
        for trace in own
        if trace.attempt == latest
        and trace.purpose != "aux"
        and trace.status != "running"
        and trace.trace_id not in left_out
    ]
    return sorted(kept, key=lambda trace: (trace.turn is None, trace.turn or 0, trace.started_at, trace.trace_id))


class _Walk:
    """The calls so far, and what is said of the next one."""

    def __init__(self, session: Session, reader: Reader, decoder: Callable[[Trace], Decode | None]) -> None:
        self._session = session
        self._reader = reader
        self._decoder = decoder
        self._known = Calls()
        self._ends = Ends()
        self._by_id: dict[str, Call] = {}

    def step(self, trace: Trace) -> CallDrift:
        # Only a call of one prompt is judged.
        exact = trace.fidelity == "exact" and trace.prompt_token_ids is not None
        call = Call(len(self._by_id), trace, self._reader.read(trace), exact)
        told = self._judged(call)
        self._by_id[trace.trace_id] = call
        self._known.add(call)
        for end in ends_of(trace):
            self._ends.add(end)
        return told

    def _judged(self, call: Call) -> CallDrift:
        trace = call.trace
        caller = caller_of(trace)
        told = CallDrift(
            trace.trace_id,
            trace.turn,
            agent_of(self._session, trace),
            "unjudged",
            agent_id=caller.agent_id if caller is not None else None,
        )
        if not call.exact:
            return told
        parent = self._ends.parent_of(trace.prompt_token_ids)
        repeated = self._known.repeated_by(call)
        if parent is not None and (repeated is None or not _goes_beyond(repeated, self._by_id[parent.trace_id])):
            return replace(told, continuity="extends", earlier_trace_id=parent.trace_id)
        if repeated is None:
            return replace(told, continuity="starts")
        told = replace(told, earlier_trace_id=repeated.earlier.trace.trace_id)
        if not repeated.earlier.exact or not repeated.choice.token_ids:
            return told
        return replace(told, continuity="breaks", broken=_broken(call, repeated, self._decoder(trace)))


def _goes_beyond(repeated: Repeated, parent: Call) -> bool:
    """Whether what a call repeats goes on after the call that it does extend."""
    if repeated.earlier is parent:
        return False
    if repeated.at is None or not parent.messages:
        return len(repeated.earlier.prompt) > len(parent.prompt)
    return repeated.at > len(parent.messages)


def _broken(call: Call, repeated: Repeated, decode: Decode | None) -> Break:
    path = repeated.earlier.path(repeated.choice)
    parting = _parting(call, repeated, path, decode)
    likely = likely_cause(parting)
    begin, end = max(0, parting.position - _BEFORE), parting.position + _AFTER
    windows = path[begin:end], call.prompt[begin:end]
    texts = [decode(window) for window in windows] if decode is not None else [None]
    decoded = None not in texts
    earlier_text, later_text = texts if decoded else (likely.earlier_text, likely.later_text)
    return Break(
        trace_id=call.trace.trace_id,
        turn=call.trace.turn,
        earlier_trace_id=repeated.earlier.trace.trace_id,
        earlier_turn=repeated.earlier.trace.turn,
        earlier_index=repeated.choice.index,
        position=parting.position,
        region=parting.region,
        cause=likely.cause,
        detail=likely.detail,
        window_start=begin,
        earlier=Side(windows[0], earlier_text, parting.lost),
        later=Side(windows[1], later_text, parting.gained),
        text_source="tokenizer" if decoded else "record",
    )


def _parting(call: Call, repeated: Repeated, path: TokenIds, decode: Decode | None) -> Parting:
    position = common(path, call.prompt)
    lost, gained = meeting(path.numpy()[position:], call.prompt.numpy()[position:]) or (None, None)
    head_text = _text(decode, path, 0, position)
    lost_text = _text(decode, path, position, lost)
    gained_text = _text(decode, call.prompt, position, gained)
    return Parting(call, repeated, position, lost, gained, head_text, lost_text, gained_text)


def _text(decode: Decode | None, ids: TokenIds, begin: int, length: int | None) -> str | None:
    if decode is None or length is None or length > _DECODED:
        return None
    return decode(ids[begin : begin + length])
