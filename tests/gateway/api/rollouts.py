"""Rollouts that have ended, in the store of a test."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

from adapters.schema import Choice, Session, SessionStatus
from adapters.token_ids import TokenIds
from tests.gateway.api.harness import STARTED, Api, trace


async def rollout(
    served: Api,
    session_id: str,
    *,
    number: int = 0,
    turns: int = 1,
    status: SessionStatus | None = "finished",
    call: dict[str, Any] | None = None,
    **session: Any,
) -> None:
    """A session whose prompts each extend the call before: two ids sampled a turn, ten more of prompt between.

    `number` tells the traces of one rollout from those of another. A status of None leaves it open.
    """
    prompt = list(range(10))
    for turn in range(turns):
        sampled = [1000 + 2 * turn, 1001 + 2 * turn]
        choice = Choice(0, TokenIds(sampled), logprobs=(-0.5, -0.25), finish_reason="stop")
        told: dict[str, Any] = {"prompt_token_ids": TokenIds(prompt), "choices": (choice,), **(call or {})}
        await served.record(
            trace(100 * number + turn, session_id, **told),
            Session(session_id, STARTED, **session) if not turn else None,
        )
        prompt = [*prompt, *sampled, *range(10 * turn, 10 * turn + 10)]
    if status is not None:
        await served.store.finish_session(session_id, status)


async def rows(served: Api, path: str) -> list[dict[str, Any]]:
    page = (await served.client.get(path)).json()
    assert list(page) == ["items", "next", "complete"], page
    items: list[dict[str, Any]] = page["items"]
    return items


async def sessions_of(served: Api, path: str) -> list[str]:
    return [row["session_id"] for row in await rows(served, path)]


async def soon(answer: asyncio.Task[httpx.Response]) -> httpx.Response:
    return await asyncio.wait_for(answer, 10)
