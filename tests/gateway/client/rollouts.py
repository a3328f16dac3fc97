"""Rollouts as their agents leave them: two calls of which the second goes on where the first ended."""

from __future__ import annotations

from typing import Any

from adapters.schema import Choice, Session
from adapters.token_ids import TokenIds
from tests.gateway.api.harness import STARTED, trace
from tests.gateway.client.harness import Reached

IDS = [1, 2, 3, 4, 5, 6, 7]
MASK = [0, 0, 0, 1, 1, 0, 1]
LOGPROBS = [0.0, 0.0, 0.0, -0.5, -0.25, 0.0, -1.0]


def rollout(gateway: Reached, session_id: str, *, status: str = "finished", **labels: Any) -> None:
    """A session of `IDS`, sampled as `MASK` says, that has ended."""
    number = int(session_id.rpartition("-")[2])
    with_labels = Session(session_id, STARTED, **labels)
    first = trace(2 * number, session_id, choices=(_choice([4, 5], (-0.5, -0.25)),))
    second = trace(
        2 * number + 1, session_id, prompt_token_ids=TokenIds([1, 2, 3, 4, 5, 6]), choices=(_choice([7], (-1.0,)),)
    )
    for each in (first, second):
        gateway.loop.run(gateway.api.record(each, with_labels))
    gateway.client.finish_session(session_id, status)


def _choice(ids: list[int], logprobs: tuple[float, ...]) -> Choice:
    return Choice(0, token_ids=TokenIds(ids), logprobs=logprobs, text="Hi", finish_reason="stop")
