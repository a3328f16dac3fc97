"""Gateways as processes of their own, by the real command line, up within a tenth of a second.

They are forked from one process that has imported everything, so that a thousand can be killed in minutes.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

_PROCESSES: Final = multiprocessing.get_context("forkserver")
_IMPORTED: Final = ["gateway.app", "gateway.cli", "gateway.commands.serve", "storage.migrate", "uvicorn", "uvloop"]
_STARTS_WITHIN_S: Final = 60.0
_STOPS_WITHIN_S: Final = 60.0


def _serve(arguments: Sequence[str], environ: Mapping[str, str], folder: Path) -> None:
    os.chdir(folder)
    output = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, sys.stdout.fileno())
    os.dup2(output, sys.stderr.fileno())
    for name in [name for name in os.environ if name.startswith("ROLLOUT_GATEWAY_")]:
        del os.environ[name]
    os.environ.update(environ)
    if "LD_PRELOAD" in environ:
        # That is heeded where a program begins.
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        os.execv(sys.executable, [sys.executable, "-m", "gateway", "serve", *arguments])  # noqa: S606
    from gateway.cli import main

    main(["serve", *arguments])


@dataclass(slots=True)
class Gateway:
    """One process, from its start to whatever end it comes to. It can be started again."""

    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    folder: Path
    """Its working directory, with its log and its ready file."""
    port: int = 0
    _process: ForkServerProcess | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.is_alive()

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    async def start(self) -> None:
        """Returns when it is ready. Raises RuntimeError with its log where it does not come up."""
        self.spawn()
        await self.ready()

    def spawn(self) -> None:
        """Start it and wait for nothing."""
        self.folder.mkdir(exist_ok=True)
        ready = self.folder / "ready.json"
        ready.unlink(missing_ok=True)
        arguments = ("--port", str(self.port), "--ready-file", str(ready), *self.arguments)
        _PROCESSES.set_forkserver_preload(_IMPORTED)
        self._process = _PROCESSES.Process(target=_serve, args=(arguments, dict(self.environ), self.folder))
        self._process.start()

    async def ready(self) -> None:
        """Returns when it listens. Raises as `start`."""
        assert self._process is not None
        ready = self.folder / "ready.json"
        try:
            async with asyncio.timeout(_STARTS_WITHIN_S):
                while not ready.exists():
                    if not self._process.is_alive():
                        raise RuntimeError(f"the gateway ended with {self._process.exitcode}:\n{self.log[-4000:]}")
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise RuntimeError(f"the gateway does not start:\n{self.log[-4000:]}") from None
        # The same port again after a kill: its agents know no other.
        self.port = int(json.loads(ready.read_text())["url"].rpartition(":")[2])

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        """At once, with nothing said."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    async def stop(self) -> int | None:
        """In order. Its exit status."""
        if self._process is None:
            return None
        if self._process.is_alive():
            self._process.terminate()
        await asyncio.to_thread(self._process.join, _STOPS_WITHIN_S)
        if self._process.is_alive():
            self.kill()
        return self._process.exitcode

    def descriptors(self) -> int:
        return len([*Path(f"/proc/{self.pid}/fd").iterdir()])

    def resident(self) -> int:
        """Bytes of memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
