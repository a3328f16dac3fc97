"""A real gateway in a process of its own, as `rollout-gateway serve` starts it, and its API."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.engines.cells import Capture
from tests.engines.tokens import Trace


class GatewayFailed(Exception):
    """The gateway did not start; the message has its last words."""


@dataclass(frozen=True, slots=True)
class NewSession:
    session_id: str
    base_url: str
    key: str


class Api:
    """What the matrix needs of `/api`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._http = httpx.Client(base_url=url, timeout=30, trust_env=False)

    def create_session(self, run_id: str, capture: Capture) -> NewSession:
        answer = self._http.post("/api/sessions", json={"run_id": run_id, "capture": capture})
        created = answer.raise_for_status().json()
        return NewSession(created["session_id"], created["base_url"], created["key"])

    def trace(self, trace_id: str) -> Trace:
        return self._get(f"/api/traces/{trace_id}")

    def traces_of(self, session_id: str) -> list[Trace]:
        items: list[Trace] = self._get(f"/api/sessions/{session_id}/traces")["items"]
        return items

    def finish(self, session_id: str) -> None:
        self._http.post(f"/api/sessions/{session_id}/finish").raise_for_status()

    def drift(self, session_id: str) -> dict[str, Any]:
        return self._get(f"/api/sessions/{session_id}/drift")

    def agents(self, session_id: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._get(f"/api/sessions/{session_id}/agents")["items"]
        return items

    def samples(self, session_id: str, **where: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = self._get(f"/api/sessions/{session_id}/samples", **where)["items"]
        return items

    def count(self, run_id: str) -> int:
        lines = self._http.get(
            "/api/traces",
            params={"run_id": run_id, "fields": "trace_id"},
            headers={"accept": "application/x-ndjson"},
        ).raise_for_status()
        return len(lines.text.splitlines())

    def _get(self, path: str, **where: str) -> dict[str, Any]:
        found: dict[str, Any] = self._http.get(path, params=where).raise_for_status().json()
        return found


@contextmanager
def serving(backend: str, folder: Path, *more: str) -> Iterator[Api]:
    """A gateway in front of `backend` (and more of them), with an empty database under `folder`."""
    ready, log = folder / "ready.json", folder / "gateway.log"
    command = [
        *(sys.executable, "-m", "gateway", "serve", "--port", "0"),
        *(word for each in (backend, *more) for word in ("--backend", each)),
        *("--database", f"sqlite:///{folder / 'rollouts.db'}", "--ready-file", str(ready)),
    ]
    with log.open("wb") as written:
        process = subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT)
    try:
        yield Api(_url(process, ready, log))
    finally:
        process.terminate()
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()


def _url(process: subprocess.Popen[bytes], ready: Path, log: Path) -> str:
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        if ready.exists():
            url: str = json.loads(ready.read_text())["url"]
            return url
        time.sleep(0.05)
    raise GatewayFailed(log.read_text()[-2000:])
