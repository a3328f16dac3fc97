"""Reading ten traces of 100,000 ids each (docs/promises.md F10) holds nobody up, and takes in no more than is read."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from adapters.schema import Choice, Session, Usage
from adapters.token_ids import TokenIds
from gateway.app import create_app
from gateway.scripted import ScriptedServer, listening, running
from gateway.settings import load
from storage.store import Store
from tests.gateway.api.harness import STARTED, trace
from tests.gateway.harness import CHAT, HELLO

IDS = 100_000
TRACES = 10


@dataclass(slots=True)
class Reading:
    """A gateway that counts the bytes of the list as it hands them to its server."""

    url: str = ""
    handed_over: int = 0


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten traces whose prompts have nothing in common, as no session's have."""
    path = tmp_path_factory.mktemp("large") / "rollouts.db"

    async def record() -> None:
        store = Store.open(f"sqlite:///{path}", gateway_id="gateway-1")
        for number in range(TRACES):
            ids = TokenIds([(at * 7919 + number * 104_729) % 150_000 for at in range(IDS)])
            logprobs = tuple(-(at % 5000) / 1000 for at in range(IDS))
            choice = Choice(0, token_ids=ids, logprobs=logprobs, text="", finish_reason="stop")
            large = trace(number, prompt_token_ids=ids, choices=(choice,), usage=Usage(IDS, IDS, 2 * IDS))
            store.begin(trace(number, status="running"), Session("s1", STARTED) if number == 0 else None)
            await store.finish(large, timeout=30)
        await store.close()

    asyncio.run(record())
    return path


@asynccontextmanager
async def reading(database: Path, backend: str) -> AsyncIterator[Reading]:
    served = Reading()
    app = create_app(load(environ={}, flags={"database": f"sqlite:///{database}", "backends": [backend]}))

    async def counting(scope: Scope, receive: Receive, send: Send) -> None:
        async def counted(message: Message) -> None:
            if scope.get("path", "").startswith("/api/"):
                served.handed_over += len(message.get("body", b""))
            await send(message)

        await app(scope, receive, counted)

    async with listening(counting, lifespan=True) as url:
        served.url = url
        yield served


async def _ask(url: str, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A reader that takes in little before it is read from."""
    host, port = url.removeprefix("http://").split(":")
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=client, limit=65_536)
    head = f"GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: application/x-ndjson\r\nconnection: close\r\n\r\n"
    writer.write(head.encode())
    return reader, writer


async def test_calls_go_on_while_a_reader_takes_its_time_and_no_more_is_taken_in_than_is_read(database: Path) -> None:
    server = ScriptedServer("vllm")
    async with (
        running(server) as backend,
        reading(database, backend) as served,
        httpx.AsyncClient(base_url=served.url, trust_env=False) as agent,
    ):
        reader, writer = await _ask(served.url, "/api/sessions/s1/traces")
        seen = await reader.readuntil(b"{")
        # The list has begun, and its reader reads on only after these calls.
        for stream in (False, True):
            assert (await agent.post(CHAT, json={**HELLO, "stream": stream})).status_code == 200
        assert (await agent.get("/healthz")).status_code == 200
        await asyncio.sleep(0.2)
        before = served.handed_over
        seen += await reader.read(-1)
        writer.close()
    assert seen.count(b"\n0\r\n\r\n") == 1  # The end of a chunked body: nothing is missing.
    assert before < served.handed_over / 2


async def test_a_page_holds_nobody_up_while_it_is_read_from_the_database_and_written(database: Path) -> None:
    """The event loop turns all the time: on itself each trace would be a turn or two."""
    server = ScriptedServer("vllm")
    async with (
        running(server) as backend,
        reading(database, backend) as served,
        httpx.AsyncClient(base_url=served.url, trust_env=False, timeout=30) as agent,
    ):
        answered = 0
        getting = asyncio.create_task(agent.get("/api/traces", params={"session_id": "s1"}))
        while not getting.done():
            assert (await agent.post(CHAT, json=HELLO)).status_code == 200
            answered += not getting.done()
        items = json.loads((await getting).content)["items"]
    assert answered >= 2
    assert all(len(item["choices"][0]["token_ids"]) == IDS for item in items)
    assert items
