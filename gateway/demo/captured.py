"""What the gateway has of a session, read over its API, and whether that is what the server sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy.typing as npt

from adapters.scripts.speech import Speech
from gateway.client import Choice, Trace
from gateway.scripted import Call


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
            prompt, answer = _prompt(trace), _answer(trace)
            if prompt[: len(ids)] != ids:
                ids, sampled = (), []
            sampled += [False] * (len(prompt) - len(ids)) + [True] * len(answer)
            ids = prompt + answer
        return tuple(zip(ids, sampled, strict=True))

    @property
    def unbroken(self) -> bool:
        """Whether each turn's prompt begins with all of the turn before."""
        return all(
            _prompt(later)[: len(_prompt(turn)) + len(_answer(turn))] == _prompt(turn) + _answer(turn)
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
    if call.asked is None or _prompt(trace) != call.asked.prompts[0]:
        found.append("other prompt ids than the server's")
    if [_sampled(choice) for choice in trace.choices] != [_said(speech) for speech in call.speeches]:
        found.append("other tokens or logprobs than the server sampled")
    return found


def _prompt(trace: Trace) -> tuple[int, ...]:
    return _values(trace.prompt_token_ids) or ()


def _answer(trace: Trace) -> tuple[int, ...]:
    """What was sampled; the demo's calls have one choice."""
    return (_values(trace.choices[0].token_ids) or ()) if trace.choices else ()


def _sampled(choice: Choice) -> tuple[object, object]:
    return _values(choice.token_ids), _values(choice.logprobs)


def _said(speech: Speech) -> tuple[object, object]:
    return speech.ids, speech.logprobs


def _values(array: npt.NDArray[Any] | None) -> tuple[Any, ...] | None:
    return None if array is None else tuple(array.tolist())
