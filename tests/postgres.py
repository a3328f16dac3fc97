"""A PostgreSQL of our own, to be started, killed, paused and thrown away: a real server from Debian's binaries."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Final, Self

import psycopg
import pytest

REQUIRED: Final = "ROLLOUT_GATEWAY_TEST_POSTGRES"
"""Set to `required`, a machine without PostgreSQL fails its tests instead of skipping them."""

_INSTALLED: Final = Path("/usr/lib/postgresql")
_STARTS_WITHIN_S: Final = 30.0
# What a developer's or an image's server has: ids that sort as words do would be found out here. Ids are bytes to us.
_CLUSTER: Final = ("--encoding=UTF8", "--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8")
# The death of a process is what the tests are about, never that of the machine.
_SETTINGS: Final = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "unix_socket_directories": "",
    "autovacuum_naptime": "5s",
}
# A role of this name has to say a password; every other comes in as it is.
GUARDED: Final = "guarded"
_WHO_MAY: Final = f"""
host all {GUARDED} 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


class Postgres:
    """One server with a folder of its own, on a port of the loopback."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self._settings = settings
        self.port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._names = count()

    @classmethod
    def make(cls, **settings: str) -> Self:
        """Made and started, with these of the server's settings. Skips or fails the test where there is none."""
        folder = Path(tempfile.mkdtemp(prefix="rollouts-postgres-"))
        server = cls(folder, _SETTINGS | settings)
        try:
            if (owner := _owner()) is not None:
                os.chown(folder, owner, -1)
            _run("initdb", "--no-sync", "--auth=trust", "--username=postgres", *_CLUSTER, "-D", str(folder / "data"))
            (folder / "data" / "pg_hba.conf").write_text(_WHO_MAY)
            server.start()
        except BaseException:
            server.remove()
            raise
        return server

    def url(self, database: str, user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def database(self, template: str = "template1") -> str:
        """The URL of a new database, empty or as another one is that nobody has open."""
        name = f"test_{os.getpid()}_{next(self._names)}"
        self.run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        return self.url(name)

    def run(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """As the server's owner, outside any transaction."""
        with psycopg.connect(self.url(database), autocommit=True, connect_timeout=10) as db:
            cursor = db.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Also after `stop` and `kill`; returns when it answers."""
        settings = [f"-c{name}={value}" for name, value in {**self._settings, "port": str(self.port)}.items()]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_binary("postgres"), "-D", str(self.folder / "data"), *settings],
                stdout=log,
                stderr=log,
                user=_owner(),
                cwd="/",
                env={"LC_ALL": "C.UTF-8"},
            )
        ends = time.monotonic() + _STARTS_WITHIN_S
        while True:
            try:
                self.run("SELECT 1")
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > ends:
                    raise RuntimeError((self.folder / "log").read_text()[-4_000:]) from None
                time.sleep(0.02)
            else:
                return

    def stop(self) -> None:
        """In order, as an administrator would; connections are told."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_STARTS_WITHIN_S)
            self._process = None

    def kill(self) -> None:
        """With all that belongs to it, at once."""
        if self._process is not None:
            self._send(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """It hangs: takes connections as the kernel does for it, and answers nothing."""
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def remove(self) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None, "it does not run"
        # The parent first, or it would start again what it sees die.
        self._process.send_signal(number)
        for child in Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split():
            try:
                os.kill(int(child), number)
            except ProcessLookupError:
                continue


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _owner() -> int | None:
    """PostgreSQL does not run as root; anybody else is as good."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_uid
        except KeyError:
            continue
    return None


def _binary(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        versions = sorted(_INSTALLED.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]), reverse=True)
        found = str(versions[0]) if versions else None
    if found is not None:
        return found
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"there is no PostgreSQL here, and {REQUIRED} says that there must be")
    pytest.skip("there is no PostgreSQL here: on Debian apt-get install postgresql")


def _run(name: str, *arguments: str) -> None:
    subprocess.run([_binary(name), *arguments], check=True, stdout=subprocess.DEVNULL, user=_owner(), cwd="/")
