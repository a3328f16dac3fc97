"""What a gateway keeps of the sessions that pass through it: run as a program, tells it as JSON.

Sessions come and go one after the other through the very parts that a call goes through, without the HTTP around them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from collections import OrderedDict, deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Raw

from adapters.request import CanonicalRequest
from adapters.schema import Choice, RecordedRequest, Session, Trace, Usage
from adapters.token_ids import TokenIds
from gateway.habits.budgets import Budgets
from gateway.habits.retries import Retries
from gateway.sessions import Sessions
from storage.ids import new_id
from storage.store import Store
from storage.usage import Usage as UsedUp

_AT_ONCE = 250
_OURS = ("adapters.", "gateway.", "storage.")
_CONTAINERS = (dict, list, set, deque, tuple, OrderedDict)
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ASKED = CanonicalRequest("chat", {"max_tokens": Raw(b"50")}, "m")


class Unread:
    """The store, which is not asked: each session is new, has a key, and has used up nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def session_by_key(self, key_hash: bytes) -> Session:
        return Session(f"s-{key_hash.hex()}", NOW)

    async def find_session(self, _: str) -> None:
        return None

    async def usage(self, _: str, __: int) -> UsedUp:
        return UsedUp()


class Parts:
    def __init__(self, store: Store) -> None:
        self.store = store
        self.sessions = Sessions(Unread(store))  # type: ignore[arg-type]
        self.budgets = Budgets(Unread(store))
        self.retries = Retries(store)

    async def call(self, number: int) -> None:
        trace_id = new_id()
        headers = {"x-api-key": f"rgs-{number}", "idempotency-key": f"k{number}"}
        resolved = await self.sessions.resolve(headers, None, trace_id)
        session = Session(resolved.session.session_id, NOW, budgets={"calls": 5})
        body = json.dumps({"messages": [{"role": "user", "content": f"{number} " * 300}]}).encode()
        request = RecordedRequest(body, headers)
        await self.retries.began(session, trace_id, headers, body)
        await self.budgets.admit(session, trace_id, ASKED)
        running = Trace(trace_id, session.session_id, "chat", "running", NOW, request)
        self.store.begin(running, session)
        self.sessions.began(session)
        session = self.sessions.pin(session, "gpu-1")
        ended = Trace(
            trace_id,
            session.session_id,
            "chat",
            "ok",
            NOW,
            request,
            prompt_token_ids=TokenIds(range(number, number + 300)),
            choices=(Choice(0, TokenIds(range(50))),),
            usage=Usage(300, 50),
            fidelity="exact",
        )
        await self.store.finish(ended, timeout=30)
        self.budgets.ended(ended)
        self.retries.ended(ended)


async def main(database: str, warm_up: int, then: int) -> dict[str, Any]:
    store = Store.open(database, gateway_id="gateway-1")
    parts = Parts(store)
    told = []
    for first, last in ((0, warm_up), (warm_up, warm_up + then)):
        for number in range(first, last, _AT_ONCE):
            await asyncio.gather(*(parts.call(each) for each in range(number, min(number + _AT_ONCE, last))))
        gc.collect()
        told.append({"rss": rss(), "largest": largest(parts)})
    await store.close()
    return {"warm": told[0], "then": told[1]}


def rss() -> int:
    """Bytes."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def largest(root: object) -> int:
    """Items of the largest container that hangs off these parts, whichever that is."""
    seen: set[int] = set()
    left: list[object] = [root]
    most = 0
    while left:
        each = left.pop()
        if id(each) in seen or isinstance(each, type):
            continue
        seen.add(id(each))
        if isinstance(each, _CONTAINERS):
            most = max(most, len(each))
        elif not type(each).__module__.startswith((*_OURS, "__main__", "tests.")):
            continue
        left += gc.get_referents(each)
    return most


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))))
