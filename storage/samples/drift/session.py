"""Where a session's prompts stop to extend what was sampled: one pass over its calls in the order of their turns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from adapters.schema import Session, Trace
from adapters.token_ids import TokenIds
from storage.parents import Ends, ends_of
from storage.samples.drift.agents import agent_of
from storage.samples.drift.causes import Parting, likely_cause
from storage.samples.drift.claims import Call, Calls, Claim
from storage.samples.drift.history import Reader
from storage.samples.drift.ids import common, meeting
from storage.samples.drift.report import Break, CallDrift, SessionDrift, Side
from storage.samples.drift.summary import counts_of

Decode = Callable[[TokenIds], str | None]
"""The text of ids, special tokens included; None where it is not known."""

_BEFORE: Final = 16
_AFTER: Final = 48
"""Ids that are shown before and after a break."""
_DECODED: Final = 4096
"""Ids that are decoded at most of what differs."""


def drift_of(session: Session, traces: Iterable[Trace], decoder: Callable[[Trace], Decode | None]) -> SessionDrift:
    """`traces` are the session's, in any order. `decoder` gives the tokenizer of the backend that a trace came from."""
    reader, known, ends = Reader(), Calls(), Ends()
    calls: dict[str, Call] = {}
    told: list[CallDrift] = []
    for number, trace in enumerate(_counted(traces)):
        call = Call(number, trace, reader.read(trace.request), _is_exact(trace))
        continuity = _judged(call, known, ends, calls, agent_of(session, trace), decoder)
        told.append(continuity)
        calls[trace.trace_id] = call
        known.add(call)
        for end in ends_of(trace):
            ends.add(end)
    return SessionDrift(session.session_id, session.run_id, counts_of(told), tuple(told))


def _counted(traces: Iterable[Trace]) -> list[Trace]:
    """Without what no rollout is made of, in the order of turns."""
    listed = [trace for trace in traces if trace.purpose != "aux" and trace.status != "running"]
    superseded = {trace.retry_of for trace in listed}
    kept = [trace for trace in listed if trace.trace_id not in superseded]
    return sorted(kept, key=lambda trace: (trace.turn is None, trace.turn or 0, trace.started_at, trace.trace_id))


def _is_exact(trace: Trace) -> bool:
    """Only a call of one prompt is judged."""
    return trace.fidelity == "exact" and trace.prompt_token_ids is not None


def _judged(
    call: Call,
    known: Calls,
    ends: Ends,
    calls: dict[str, Call],
    agent: str | None,
    decoder: Callable[[Trace], Decode | None],
) -> CallDrift:
    trace = call.trace
    if not call.exact:
        return CallDrift(trace.trace_id, trace.turn, agent, "unjudged")
    parent = ends.parent_of(trace.prompt_token_ids)
    claim = known.claimed_by(call)
    if parent is not None and (claim is None or not _goes_beyond(claim, calls[parent.trace_id])):
        return CallDrift(trace.trace_id, trace.turn, agent, "extends", parent.trace_id)
    if claim is None:
        return CallDrift(trace.trace_id, trace.turn, agent, "starts")
    earlier = claim.earlier.trace.trace_id
    if not claim.earlier.exact or not claim.choice.token_ids:
        return CallDrift(trace.trace_id, trace.turn, agent, "unjudged", earlier)
    return CallDrift(trace.trace_id, trace.turn, agent, "breaks", earlier, _broken(call, claim, decoder(trace)))


def _goes_beyond(claim: Claim, parent: Call) -> bool:
    """Whether what a call repeats goes on after the call that it does extend."""
    if claim.earlier is parent:
        return False
    if claim.at is None or not parent.messages:
        return len(claim.earlier.prompt) > len(parent.prompt)
    return claim.at > len(parent.messages)


def _broken(call: Call, claim: Claim, decode: Decode | None) -> Break:
    path = claim.earlier.path(claim.choice)
    position = common(path, call.prompt)
    met = meeting(path.numpy()[position:], call.prompt.numpy()[position:])
    lost, gained = met if met is not None else (None, None)
    parting = Parting(
        call,
        claim,
        position,
        lost,
        gained,
        _text(decode, path, position, lost),
        _text(decode, call.prompt, position, gained),
    )
    likely = likely_cause(parting)
    begin, end = max(0, position - _BEFORE), position + _AFTER
    windows = path[begin:end], call.prompt[begin:end]
    shown = tuple(decode(window) for window in windows) if decode is not None else (None, None)
    decoded = None not in shown
    one, other = shown if decoded else (likely.earlier_text, likely.later_text)
    return Break(
        trace_id=call.trace.trace_id,
        turn=call.trace.turn,
        earlier_trace_id=claim.earlier.trace.trace_id,
        earlier_turn=claim.earlier.trace.turn,
        earlier_index=claim.choice.index,
        position=position,
        region=parting.region,
        cause=likely.cause,
        detail=likely.detail,
        window_start=begin,
        earlier=Side(windows[0], one, lost),
        later=Side(windows[1], other, gained),
        text_source="tokenizer" if decoded else "record",
    )


def _text(decode: Decode | None, ids: TokenIds, begin: int, length: int | None) -> str | None:
    if decode is None or length is None or length > _DECODED:
        return None
    return decode(ids[begin : begin + length])
