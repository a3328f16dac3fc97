"""The log: one renderer for all, ids on each line, and nowhere a body or a secret."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.scripted import Fault, ScriptedServer, running
from gateway.sight.context import CALL, Ids
from gateway.sight.logs import LogFormat, is_json, set_up
from tests.gateway.harness import CHAT, HELLO, gateway

CANARY = "canary-5e1f0c"
LOGGERS = ("", "adapters", "gateway", "storage", "uvicorn.error", "alembic", "somebody.else")


@contextmanager
def logged(level: str = "debug", log_format: LogFormat = "json", **more: Any) -> Iterator[io.StringIO]:
    """What is written meanwhile; the tests' own log is as before afterwards."""
    before = {name: logging.getLogger(name).level for name in LOGGERS}
    handlers, filters = logging.getLogger().handlers[:], logging.getLogger("uvicorn.error").filters[:]
    stream = io.StringIO()
    try:
        set_up(level, log_format, stream=stream, **more)
        yield stream
    finally:
        logging.getLogger().handlers[:] = handlers
        logging.getLogger("uvicorn.error").filters[:] = filters
        for name, old in before.items():
            logging.getLogger(name).setLevel(old)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_an_object_whoever_wrote_it() -> None:
    with logged() as stream:
        logging.getLogger("somebody.else").info("it is %s", "«well»")
        logging.getLogger("storage.writer").debug("written", extra={"rows": 3})
    one, two = lines(stream)
    assert (one["event"], one["level"], one["logger"]) == ("it is «well»", "info", "somebody.else")
    assert one["time"].endswith("Z")
    assert (two["event"], two["rows"]) == ("written", 3)


def test_for_a_person_it_is_a_line_of_words() -> None:
    with logged("info", "console") as stream:
        logging.getLogger("gateway.app").info("it is well", extra={"backend": "a"})
    [line] = stream.getvalue().splitlines()
    assert "info" in line
    assert "it is well" in line
    assert "backend=a" in line


def test_what_is_not_read_at_a_terminal_is_json() -> None:
    assert is_json("auto", io.StringIO())
    assert not is_json("console", io.StringIO())


def test_a_line_has_the_ids_of_the_call_that_it_is_about() -> None:
    with logged(worker=2) as stream:
        token = CALL.set(Ids("r1", "t1", "s1"))
        logging.getLogger("gateway.proxy").warning("hm")
        CALL.reset(token)
        logging.getLogger("gateway.proxy").warning("hm")
    one, two = lines(stream)
    assert (one["request_id"], one["trace_id"], one["session_id"], one["worker"]) == ("r1", "t1", "s1", 2)
    assert "request_id" not in two


def test_libraries_have_no_debug_for_it_would_tell_what_they_were_given() -> None:
    with logged("debug") as stream:
        logging.getLogger("somebody.else").debug(CANARY)
        logging.getLogger("gateway").debug("ours")
    assert [line["event"] for line in lines(stream)] == ["ours"]


def _fails() -> None:
    try:
        raise KeyError(CANARY)
    except KeyError as exc:
        raise FileNotFoundError(2, "No such file", "rollouts.db") from exc


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_says_where_and_only_of_what_is_ours_what(log_format: LogFormat) -> None:
    with logged("debug", log_format) as stream:
        try:
            _fails()
        except OSError:
            logging.getLogger("gateway").exception("it failed")
    told = stream.getvalue()
    assert CANARY not in told
    assert "KeyError (its words are left out" in told
    assert "FileNotFoundError: [Errno 2] No such file" in told
    assert "in _fails" in told


@pytest.mark.parametrize(
    "secret",
    [
        "an-agents-key",
        "rgs-dGhpcyBpcyBhIHNlc3Npb24ga2V5",
        "rgk-dGhpcyBpcyBhIGtleQ-and-more",
        "authorization: Bearer sk-whatever",
        "postgresql://user:pass-word@host/rollouts",
    ],
)
def test_a_secret_is_left_out_whoever_says_it(secret: str) -> None:
    with logged(secrets=["an-agents-key"]) as stream:
        logging.getLogger("gateway").warning("it said %s", secret)
        logging.getLogger("gateway").warning("it said", extra={"what": secret})
    told = stream.getvalue()
    assert secret.rpartition(" ")[2] not in told
    assert "pass-word" not in told
    assert told.count("[secret]") == 2


async def test_a_call_that_fails_is_a_warning_and_one_that_goes_well_is_for_who_looks(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    server.faults.append(Fault(status=500))
    async with running(server) as url, gateway(tmp_path, f"{url},engine=vllm,version=0.32.0,name=a") as served:
        with logged() as stream:
            for _ in range(2):
                await served.chat(session="s1", headers={"x-request-id": "r1"})
    one, two = [line for line in lines(stream) if line["event"].startswith("a call ended")]
    assert (one["level"], one["event"], one["http_status"]) == ("warning", "a call ended: backend_error", 500)
    assert (two["level"], two["event"], two["fidelity"]) == ("debug", "a call ended: ok", "exact")
    for line in (one, two):
        assert (line["request_id"], line["session_id"], line["backend"]) == ("r1", "s1", "a")
        assert line["duration_ms"] > 0


async def test_neither_bodies_nor_secrets_are_in_the_log_of_a_gateway_at_debug(tmp_path: Path) -> None:
    """A process of its own, so that all is there that a gateway has: its server, its database, its libraries."""
    server = ScriptedServer("vllm")
    server.faults.extend([Fault(), Fault(), Fault(status=400, body=CANARY.encode()), Fault(after_frames=1)])
    ready = tmp_path / "ready.json"
    key = f"key-{CANARY}"
    async with running(server) as url:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "serve", "--port", "0", "--ready-file", str(ready)),
            *("--backend", f"{url},engine=vllm,version=0.32.0,api_key_env=B", "--log-level", "debug"),
            env={
                "B": f"backend-{CANARY}",
                "ROLLOUT_GATEWAY_KEYS": key,
                "ROLLOUT_GATEWAY_ADMIN_KEY": f"admin-{CANARY}",
                "PYTHONPATH": ":".join(sys.path),
                "PATH": os.environ["PATH"],
            },
            cwd=tmp_path,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(30):
                while not ready.exists():
                    await asyncio.sleep(0.02)
            await _call_in_every_way(json.loads(ready.read_text())["url"], key)
        finally:
            process.terminate()
            _, log = await asyncio.wait_for(process.communicate(), 30)
    told = log.decode()
    assert CANARY not in told
    events = [json.loads(line)["event"] for line in told.splitlines()]
    assert "a call ended: ok" in events
    assert "a call ended: backend_error" in events
    assert any(event.startswith("rollout-gateway ") for event in events)


async def _call_in_every_way(url: str, key: str) -> None:
    import httpx

    said = {**HELLO, "messages": [{"role": "user", "content": CANARY}]}
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as agent:
        agent.headers["authorization"] = f"Bearer {key}"
        for stream in (False, True, False, True):
            await agent.post(CHAT, json={**said, "stream": stream}, headers={"cookie": CANARY})
        await agent.post(CHAT, content=b'{"messages": "' + CANARY.encode())
        await agent.post("/v1/messages", json={"messages": CANARY})
        await agent.post(CHAT, json=said, headers={"authorization": f"Bearer wrong-{CANARY}"})
        agent.headers["authorization"] = f"Bearer admin-{CANARY}"
        await agent.post("/api/sessions", json={"metadata": {"a": CANARY}, "session_id": 7})
        await agent.get("/api/traces", params={"session_id": "s", "nonsense": CANARY})
