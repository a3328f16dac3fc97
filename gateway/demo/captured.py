"""What the gateway has of a session, read over its API, and whether that is what the server sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from adapters.scripts.speech import Speech
from gateway.scripted import Call


class Choice(msgspec.Struct, frozen=True):
    """The fields that the demo shows of a choice."""

    index: int
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float | None, ...] | None = None


class Trace(msgspec.Struct, frozen=True):
    """The fields that the demo shows of a trace."""

    trace_id: str
    turn: int
    status: str
    plan: str | None
    fidelity: str
    logprobs_fidelity: str
    choices: tuple[Choice, ...]
    prompt_token_ids: tuple[int, ...] | None = None
    fidelity_reason: str | None = None
    logprobs_reason: str | None = None

    @property
    def prompt(self) -> tuple[int, ...]:
        return self.prompt_token_ids or ()

    @property
    def answer(self) -> tuple[int, ...]:
        """What was sampled; the demo's calls have one choice."""
        return (self.choices[0].token_ids or ()) if self.choices else ()


@dataclass(frozen=True, slots=True)
class Captured:
    """One session of the demo."""

    session_id: str
    engine: str
    traces: tuple[Trace, ...]
    """In the order of their turns."""

    @property
    def sequence(self) -> tuple[tuple[int, bool], ...]:
        """The session as one run of tokens: each id, and whether the policy sampled it."""
        ids: tuple[int, ...] = ()
        sampled: list[bool] = []
        for trace in self.traces:
            prompt, answer = trace.prompt, trace.answer
            if prompt[: len(ids)] != ids:
                ids, sampled = (), []
            sampled += [False] * (len(prompt) - len(ids)) + [True] * len(answer)
            ids = prompt + answer
        return tuple(zip(ids, sampled, strict=True))

    @property
    def unbroken(self) -> bool:
        """Whether each turn's prompt begins with all of the turn before."""
        return all(
            later.prompt[: len(turn.prompt) + len(turn.answer)] == turn.prompt + turn.answer
            for turn, later in pairwise(self.traces)
        )

    def defects(self, calls: Sequence[Call]) -> list[str]:
        """What differs from the server's own ledger of the same calls; nothing, if the gateway did its work."""
        if len(calls) != len(self.traces):
            return [f"{self.engine}: {len(calls)} calls reached the server and {len(self.traces)} traces are stored"]
        found = [
            f"{self.engine} turn {trace.turn}: {defect}"
            for trace, call in zip(self.traces, calls, strict=True)
            for defect in _defects(trace, call)
        ]
        return found if self.unbroken else [*found, f"{self.engine}: the turns are not one sequence of tokens"]


def _defects(trace: Trace, call: Call) -> list[str]:
    if trace.status != "ok":
        return [f"status is {trace.status}"]
    found = []
    if trace.fidelity != "exact":
        found.append(f"fidelity is {trace.fidelity} ({trace.fidelity_reason})")
    if trace.logprobs_fidelity != "exact":
        found.append(f"no logprobs ({trace.logprobs_reason})")
    if call.asked is None or trace.prompt_token_ids != call.asked.prompts[0]:
        found.append("other prompt ids than the server's")
    if [_sampled(choice) for choice in trace.choices] != [_said(speech) for speech in call.speeches]:
        found.append("other tokens or logprobs than the server sampled")
    return found


def _sampled(choice: Choice) -> tuple[object, object]:
    return choice.token_ids, choice.logprobs


def _said(speech: Speech) -> tuple[object, object]:
    return speech.ids, speech.logprobs
