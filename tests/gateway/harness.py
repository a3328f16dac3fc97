"""A real gateway on a real socket, in this process, for tests that call it as an agent would."""

from __future__ import annotations

import asyncio
import sqlite3
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from adapters.schema import Trace
from gateway.app import create_app
from gateway.edge import AgentConnection, Doorway
from gateway.scripted import listening
from gateway.settings import load
from storage.records import TraceQuery
from storage.store import Store
from tests.databases import make_database

CHAT = "/v1/chat/completions"
HELLO: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 32}

# Of plain HTTP; to load the system's takes longer than a whole gateway takes to start.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that listens."""

    url: str
    agent: httpx.AsyncClient
    database: Path

    async def chat(self, *, session: str | None = None, headers: dict[str, str] | None = None, **fields: Any) -> Any:
        path = f"/sessions/{session}{CHAT}" if session else CHAT
        return await self.agent.post(path, json={**HELLO, **fields}, headers=headers)

    async def stream(self, *, session: str | None = None, **fields: Any) -> tuple[httpx.Response, bytes]:
        """The response and all bytes of its body."""
        response = await self.chat(session=session, stream=True, **fields)
        return response, response.content

    async def trace(self, response: httpx.Response) -> dict[str, Any]:
        """What was recorded of a call, as the API tells it."""
        told: dict[str, Any] = (await self.agent.get(f"/api/traces/{response.headers['x-trace-id']}")).json()
        return told

    def statuses(self) -> list[tuple[str, str]]:
        """`(status, fidelity)` of each trace, as another process sees them now."""
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as db:
            rows = db.execute("select status, fidelity from traces order by trace_id").fetchall()
        return [(status, fidelity) for status, fidelity in rows]


@asynccontextmanager
async def gateway(
    tmp_path: Path, *backends: str, environ: Mapping[str, str] | None = None, **flags: Any
) -> AsyncIterator[Running]:
    """A gateway in front of these backends (values of `--backend`) and behind its edge; settings as flags.

    A scripted server on a busy machine has longer than a real one to be reached and to say what it is.
    """
    database = tmp_path / "rollouts.db"
    make_database(database)
    ours = {"database": f"sqlite:///{database}", "backends": backends, "detect_timeout": 20.0, "connect_timeout": 20.0}
    settings = load(environ=environ or {}, flags=ours | flags)
    doorway = Doorway(receive_timeout=settings.receive_timeout, max_connections=settings.max_connections)
    edge = partial(AgentConnection, doorway=doorway)
    async with (
        listening(create_app(settings), lifespan=True, connection=edge) as url,
        httpx.AsyncClient(base_url=url, timeout=30, trust_env=False, verify=_NO_CERTIFICATES) as agent,
    ):
        yield Running(url, agent, database)


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Returns once it is so. Raises TimeoutError."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def traces_in(database: Path, **query: Any) -> list[Trace]:
    """All traces of a database that no gateway has open any more."""
    store = Store.open(f"sqlite:///{database}", gateway_id="test-reader")
    try:
        return list((await store.traces(TraceQuery(**query))).items)
    finally:
        await store.close()


def events(stream: bytes) -> list[bytes]:
    """The data of each server-sent event of a clean stream."""
    return [part.removeprefix(b"data: ") for part in stream.split(b"\n\n") if part.startswith(b"data: ")]
