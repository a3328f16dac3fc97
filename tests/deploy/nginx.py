"""Debian's nginx with the file that compose.yaml gives it; only the addresses are this machine's."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

REQUIRED: Final = "ROLLOUT_GATEWAY_TEST_NGINX"
"""Set to `required`, a machine without nginx fails its tests instead of skipping them."""

CONFIGURATION: Final = Path(__file__).parents[2] / "deploy" / "nginx.conf"


def configuration(folder: Path, port: int, gateways: Sequence[str], changes: dict[str, str]) -> str:
    """The file with these addresses, and with `changes` of its own words. Every word has to stand in it."""
    told = CONFIGURATION.read_text(encoding="utf-8")
    addresses = [f"server {url.removeprefix('http://')}" for url in gateways]
    while len(addresses) < 2:
        addresses.append(addresses[0] + " backup")
    own = {
        "server gateway-1:9090": addresses[0],
        "server gateway-2:9090": addresses[1],
        "listen 8080": f"listen 127.0.0.1:{port}",
        "worker_processes auto": "worker_processes 2",
        "/tmp/nginx": f"{folder}/nginx",  # noqa: S108
    }
    for word, now in (own | changes).items():
        assert word in told, f"{CONFIGURATION} has no {word!r}"
        told = told.replace(word, now)
    return told


@asynccontextmanager
async def in_front_of(folder: Path, *gateways: str, **changes: str) -> AsyncIterator[str]:
    """The URL of an nginx before these gateways. `changes` by directive, as `proxy_read_timeout="2s"`."""
    binary = _binary()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    words = {_directive(name): f"{name} {value};" for name, value in changes.items()}
    path = folder / "nginx.conf"
    path.write_text(configuration(folder, port, gateways, words), encoding="utf-8")
    # Its workers have the rights of whoever started it, as in a container.
    user = "user root;" if os.geteuid() == 0 else ""
    log = (folder / "nginx.log").open("wb")
    process = await asyncio.create_subprocess_exec(
        *(binary, "-p", str(folder), "-c", str(path), "-g", f"daemon off; {user}"), stderr=log
    )
    try:
        await _listens(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
        log.close()


def _directive(name: str) -> str:
    """The line's words from the directive to the semicolon, as they stand in the file."""
    for line in CONFIGURATION.read_text(encoding="utf-8").splitlines():
        if line.strip().startswith(f"{name} "):
            return line.strip()
    raise AssertionError(f"{CONFIGURATION} has no {name}")


async def _listens(port: int, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(20):
        while True:
            assert process.returncode is None, "nginx ended: its log is beside its configuration"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.01)
            else:
                writer.close()
                return


def _binary() -> str:
    found = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if found is not None:
        return found
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"there is no nginx here, and {REQUIRED} says that there must be")
    pytest.skip("there is no nginx here: on Debian apt-get install nginx-light")
