"""Administration at a listener of its own: what is at which."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

ROOT = Path(__file__).parents[2]
INNER = {"x-api-key": "admin"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def serving(folder: Path, admin_port: int) -> Iterator[str]:
    """The agents' URL of a real process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ROLLOUT_GATEWAY_")}
    told = {"PYTHONPATH": str(ROOT), "ROLLOUT_GATEWAY_ADMIN_PORT": str(admin_port), "ROLLOUT_GATEWAY_KEYS": "agent"}
    ready = folder / "ready.json"
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "gateway",
            "serve",
            "--port",
            "0",
            "--log-format",
            "console",
            "--ready-file",
            str(ready),
        ],
        env=kept | told | {"ROLLOUT_GATEWAY_ADMIN_KEY": "admin"},
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not ready.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        yield json.loads(ready.read_text())["url"]
    finally:
        process.send_signal(signal.SIGTERM)
        errors = process.communicate(timeout=30)[1]
    assert process.returncode == 0, errors
    assert f"http://127.0.0.1:{admin_port}/api/admin, and there alone" in errors


def test_administration_is_at_its_own_listener_alone_and_agents_are_not(tmp_path: Path) -> None:
    port = free_port()
    with serving(tmp_path, port) as url:
        inner = f"http://127.0.0.1:{port}"

        def status(at: str, path: str, **headers: str) -> int:
            return httpx.get(at + path, headers=headers, trust_env=False).status_code

        for path in ("/api/admin/status", "/api/admin/keys", "/api/admin", "/metrics"):
            assert status(url, path, **INNER) == 404, path
        for path in ("/api/admin/status", "/api/admin/keys", "/metrics"):
            assert status(inner, path, **INNER) == 200, path
            assert status(inner, path) == 401, path
        for path in ("/v1/models", "/sessions/a/v1/models"):
            assert status(url, path, **{"x-api-key": "agent"}) == 503  # It has no backend.
            assert status(inner, path, **{"x-api-key": "agent"}) == 404
        for at in (url, inner):
            assert status(at, "/api/sessions", **INNER) == 200
            assert status(at, "/docs") == status(at, "/healthz") == 200
        # Whom a request says that it is for makes no difference.
        assert status(url, "/api/admin/status", host=f"127.0.0.1:{port}", **INNER) == 404
        told = httpx.get(f"{url}/api/admin/status", headers=INNER, trust_env=False).json()
        assert "a listener of its own" in told["detail"]
