"""Who made a call, as far as anybody said: which program, and which of its agents."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from adapters.schema import Session, Trace

_PRODUCT: Final = re.compile(r"[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Caller:
    """One agent of a rollout. A harness that has only one, or names only its sub-agents, has its session's id here."""

    agent_id: str
    parent_agent_id: str | None
    """Who spawned it; null for the main agent."""


@dataclass(frozen=True, slots=True)
class AgentCalls:
    """The calls of one agent in a session."""

    agent_id: str | None
    """Null for the calls of which nobody said whose they are."""
    parent_agent_id: str | None
    kind: str | None
    """What sort of sub-agent its harness calls it."""
    calls: int
    aux_calls: int
    """How many of them the harness made for itself."""
    completion_tokens: int
    """Of those that the engine counted."""
    trace_ids: tuple[str, ...]
    """In the order of turns."""


def agent_of(session: Session, trace: Trace) -> str | None:
    """`agent` of the session's metadata; else the harness's name; else the product that its user agent begins with."""
    for told in (session.metadata.get("agent"), trace.harness.get("name")):
        if isinstance(told, str) and told:
            return told
    product = _PRODUCT.match(user_agent(trace))
    return product.group() if product is not None else None


def caller_of(trace: Trace) -> Caller | None:
    """None where the call names neither an agent nor a session of its harness.

    Harnesses differ in what they name: Codex all its threads, Claude Code its sub-agents within one session, opencode a
    session for each agent. In all of them a sub-agent whose parent is not told was spawned by the main one, which is
    known by the session's id.
    """
    session_id, agent_id, parent_id = (_told(trace, name) for name in ("session_id", "agent_id", "parent_id"))
    own = agent_id or session_id
    if own is None:
        return None
    parent = parent_id or session_id
    return Caller(own, parent if parent != own else None)


def is_subagent(trace: Trace) -> bool:
    caller = caller_of(trace)
    return caller is not None and caller.parent_agent_id is not None


def agents_of(traces: Iterable[Trace]) -> tuple[AgentCalls, ...]:
    """A session's calls by agent: whoever called first comes first."""
    in_order = sorted(traces, key=lambda trace: (trace.turn is None, trace.turn or 0, trace.trace_id))
    by_caller: dict[Caller | None, list[Trace]] = {}
    for trace in in_order:
        by_caller.setdefault(caller_of(trace), []).append(trace)
    return tuple(_summed(caller, calls) for caller, calls in by_caller.items())


def user_agent(trace: Trace) -> str:
    """Empty where none was sent."""
    return next((value for name, value in trace.request.headers.items() if name.lower() == "user-agent"), "")


def _summed(caller: Caller | None, calls: list[Trace]) -> AgentCalls:
    return AgentCalls(
        agent_id=caller.agent_id if caller is not None else None,
        parent_agent_id=caller.parent_agent_id if caller is not None else None,
        kind=next(filter(None, (_told(trace, "kind") for trace in calls)), None),
        calls=len(calls),
        aux_calls=sum(trace.purpose == "aux" for trace in calls),
        completion_tokens=sum(trace.usage.completion_tokens or 0 for trace in calls if trace.usage is not None),
        trace_ids=tuple(trace.trace_id for trace in calls),
    )


def _told(trace: Trace, name: str) -> str | None:
    value = trace.harness.get(name)
    return value if isinstance(value, str) and value else None
