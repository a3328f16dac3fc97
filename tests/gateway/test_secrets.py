"""Canaries: secrets that go through a busy gateway, looked for in everything that it leaves behind or tells."""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from gateway.scripted import Fault, ScriptedServer, running
from storage.zstd import zstd
from tests.gateway.dialect_calls import ASKED
from tests.gateway.harness import CHAT, HELLO, Running, gateway, until

AGENT, ADMIN, BACKEND = "canary-agent-c0ffee", "canary-admin-c0ffee", "canary-backend-c0ffee"
_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
AS_ADMIN = {"authorization": f"Bearer {ADMIN}"}
# What callers send beside a good key, or in place of one.
SENT: Mapping[str, str] = {
    "cookie": "session=canary-cookie-c0ffee",
    "proxy-authorization": "Basic canary-proxy-c0ffee",
    "x-forwarded-access-token": "canary-forwarded-c0ffee",
    "api-key": "canary-azure-c0ffee",
    "x-goog-api-key": "canary-google-c0ffee",
    "openai-organization": "canary-organization-c0ffee",
    "x-custom-secret": "canary-custom-c0ffee",
}
TOLD = (
    "/api/sessions",
    "/api/sessions/s1",
    "/api/sessions/s1/traces",
    "/api/traces",
    "/api/samples",
    "/api/export",
    "/api/groups",
    "/api/drift",
    "/api/admin/status",
    "/api/admin/backends",
    "/api/admin/keys",
    "/api/admin/audit",
    "/api/admin/storage",
    "/metrics",
    "/openapi.json",
    "/healthz",
    "/readyz",
)


async def busy(served: Running, server: ScriptedServer) -> tuple[list[str], list[httpx.Response]]:
    """Calls of all kinds, good and bad. The keys that were made meanwhile, and every answer but theirs."""
    ask = served.agent
    made = await ask.post("/api/sessions", json={"session_id": "s1", "run_id": "r"}, headers=AS_ADMIN)
    key = await ask.post("/api/admin/keys", json={"name": "k", "scopes": ["infer", "admin"]}, headers=AS_ADMIN)
    keys = [made.json()["key"], key.json()["key"]]
    places = [
        {name: start + secret}
        for secret in (AGENT, *keys, ADMIN)
        for name, start in (("authorization", "Bearer "), ("x-api-key", ""))
    ]
    told = [
        await ask.post(path, json={**body, **stream}, headers={**SENT, **place})
        for place in places
        for path, body in ASKED.items()
        for stream in (({},) if "count" in path else ({}, {"stream": True}))
    ]
    server.faults += [
        Fault(status=401, body=b'{"error": {"message": "no"}}'),
        Fault(silent=True),
        Fault(after_frames=2),
    ]
    told += [
        await ask.post(f"/sessions/s2{CHAT}", json={**HELLO, "stream": True}, headers={**SENT, "x-api-key": AGENT})
        for _ in range(4)
    ]
    told += [
        await ask.post(path, json=HELLO, headers={**SENT, "authorization": f"Bearer {wrong}"})
        for wrong in ("rgk-canary-wrong-c0ffee", "rgs-canary-wrong-c0ffee", "canary-wrong-c0ffee")
        for path in (CHAT, "/v1/models", "/api/traces", "/api/admin/keys", "/v1/canary-nothing")
    ]
    told += [
        await ask.request(method, path, json={"url": "http://127.0.0.1:1"}, headers={**SENT, **AS_ADMIN})
        for method, path in (("POST", "/api/admin/backends"), ("POST", "/api/admin/prune"), ("PUT", "/api/admin/keys"))
    ]
    told += [await ask.get(path, headers=AS_ADMIN) for path in TOLD]
    return keys, told


def laid_open(data: bytes) -> bytes:
    """With what stands compressed in it. What is stored against another trace is told by the API, whole."""
    parts = [data]
    for found in re.finditer(re.escape(_ZSTD_FRAME), data):
        with suppress(zstd.ZstdError):
            parts.append(zstd.ZstdDecompressor().decompress(data[found.start() :]))
    return b"\n".join(parts)


def forms(secret: str) -> list[bytes]:
    return [secret.encode(), b64encode(secret.encode())[:-4], secret.encode().hex().encode()]


async def test_no_secret_is_left_anywhere_nor_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = ScriptedServer("vllm")
    async with (
        running(server) as backend,
        gateway(
            tmp_path,
            f"{backend},api_key_env=BACKEND_KEY,name=b",
            environ={"BACKEND_KEY": BACKEND},
            keys=AGENT,
            admin_key=ADMIN,
            commit_timeout=0.2,
        ) as served,
    ):
        keys, told = await busy(served, server)
        seen = "\n".join(f"{name}: {value}" for call in server.calls for name, value in call.headers)
        assert BACKEND in seen  # Its own key is all that a backend gets; and the test's calls did get there.
        spooled = await spooling(served, tmp_path)
        answers = b"\n".join(b"%r\n%b" % (list(each.headers.raw), each.content) for each in told)
    files = laid_open(b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()))  # noqa: ASYNC240
    assert b"Hello?" in files
    assert b"Say hello." in spooled
    logged = "\n".join(record.getMessage() for record in caplog.records if not record.name.startswith("http"))
    secrets = [AGENT, ADMIN, BACKEND, *keys, *(value.split("=")[-1].split()[-1] for value in SENT.values())]
    secrets += [f"{start}canary-wrong-c0ffee" for start in ("rgk-", "rgs-", "")]
    for secret in secrets:
        if secret != BACKEND:
            assert secret not in seen, f"{secret} went to a backend"
        for form in forms(secret):
            assert form not in files, f"{secret} is in a file"
            assert form not in spooled, f"{secret} is in the spool"
            assert form not in answers, f"{secret} is in an answer"
            assert form.decode() not in logged, f"{secret} is in the log"
    # The digests of those that are stored are there, so what was searched is what was written.
    assert all(sha256(key.encode()).digest() in files for key in keys)


async def spooling(served: Running, folder: Path) -> bytes:
    """What a call leaves in the spool while the database takes nothing."""
    with sqlite3.connect(served.database, isolation_level=None) as db:
        db.execute("begin exclusive")
        headers = {**SENT, "authorization": f"Bearer {AGENT}"}
        call = asyncio.create_task(served.agent.post(CHAT, json=HELLO, headers=headers))
        assert (await call).status_code == 200

        def spool() -> bytes:
            files = [path for path in (folder / "rollouts.db-spool").rglob("*") if path.is_file()]
            return laid_open(b"".join(path.read_bytes() for path in files))

        await until(lambda: b"Say hello." in spool())
        left = spool()
        db.execute("rollback")
    return left
