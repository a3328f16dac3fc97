"""Which of a session's calls are trained: those that are left out by choice, and those that are lost.

Left out, and no loss: calls of an earlier attempt of the rollout under the same id; `aux` calls, superseded attempts,
and cut-short calls that are exact all the same (each unless asked for); calls that were refused, never sent or cut
before their first token. What of their tokens stands in a later prompt has mask 0, like any other text that the policy
was given.

Lost: a call that sampled tokens for the agent, of which it is not known for sure which they are, whether it had its
end or was cut short: the agent may have gone on from what it got. So is one whose trace can't be read back. So is a
call that still runs in a session that has ended, as long as it runs; in an open session a running call is just not
there yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from adapters.schema import Choice, Session, Trace
from storage.codec import is_unreadable
from storage.samples.agents import is_subagent
from storage.samples.node import Node, node_of, prompt_of
from storage.samples.options import SampleOptions

CUT_SHORT: Final = frozenset({"client_disconnected", "interrupted", "backend_error"})
"""The statuses of a call that the agent may not have the proper end of."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A call whose tokens were wanted."""

    trace: Trace
    reason: str


@dataclass(frozen=True, slots=True)
class Chosen:
    nodes: tuple[Node, ...]
    """By turn, trace id and index: the order in which everything else is done."""
    lost: tuple[Lost, ...]


def choose(session: Session, traces: Iterable[Trace], options: SampleOptions) -> Chosen:
    """Raises ValueError for a trace of another session."""
    own = _in_order(session, traces)
    left_out: frozenset[str] = frozenset() if options.retries else superseded(own)
    nodes: list[Node] = []
    lost: list[Lost] = []
    # As the calls have it: a session may be labelled after they were made.
    latest = max((trace.attempt for trace in own), default=0)
    for trace in own:
        if trace.attempt != latest:
            continue  # Another rollout, whose reward is not this one's.
        if (trace.purpose == "aux" and not options.aux) or trace.trace_id in left_out:
            continue
        if options.agents == "main" and is_subagent(trace):
            continue
        if trace.status == "running":
            if session.status != "open":
                lost.append(Lost(trace, "the call is still running"))
        elif trace.status == "ok" or (trace.status in CUT_SHORT and (options.cut or trace.fidelity != "exact")):
            reason = _take(trace, nodes)
            if reason is not None:
                lost.append(Lost(trace, reason))
    return Chosen(tuple(nodes), tuple(lost))


def superseded(traces: Iterable[Trace]) -> frozenset[str]:
    """The ids of the attempts that another call repeats, however that one went: the agent did not get their answer."""
    named = ((trace.retry_of, trace.trace_id) for trace in traces)
    return frozenset(earlier for earlier, own in named if earlier is not None and earlier != own)


def _in_order(session: Session, traces: Iterable[Trace]) -> Sequence[Trace]:
    """Each once, however often given: of a call that ran and ended, the end."""
    by_id: dict[str, Trace] = {}
    for trace in sorted(traces, key=lambda trace: trace.status != "running"):
        if trace.session_id != session.session_id:
            raise ValueError(f"trace {trace.trace_id} is of session {trace.session_id}, not {session.session_id}")
        by_id[trace.trace_id] = trace
    return sorted(by_id.values(), key=lambda trace: (trace.turn is None, trace.turn or 0, trace.trace_id))


def _take(trace: Trace, nodes: list[Node]) -> str | None:
    """Add the nodes of a call that has ended. Gives why tokens of it are lost; None where none are."""
    if trace.fidelity != "exact":
        if trace.status != "ok" and not (is_unreadable(trace) or _has_sampled(trace)):
            return None  # Refused, or cut before its first token.
        return f"{trace.fidelity}: {trace.fidelity_reason or 'no reason was recorded'}"
    reason = None
    for choice in sorted(trace.choices, key=lambda choice: choice.index):
        prompt = prompt_of(trace, choice)
        if choice.token_ids is None or prompt is None:
            reason = _missing(choice)
        elif choice.token_ids:
            nodes.append(node_of(trace, choice, prompt, choice.token_ids))
    return reason


def _has_sampled(trace: Trace) -> bool:
    return any(choice.token_ids or choice.text for choice in trace.choices)


def _missing(choice: Choice) -> str:
    what = "ids" if choice.token_ids is None else "prompt ids"
    return f"choice {choice.index} of a trace that is called exact has no {what}"
