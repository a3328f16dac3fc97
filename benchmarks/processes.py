"""Processes that the benchmark starts, and the CPU that they have used, from /proc."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")
_IDLE: Final = 0.4


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Tree:
    """A process with all that it started."""

    def __init__(self, command: Sequence[str], log: Path, environ: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, env={**os.environ, **(environ or {})}
            )

    def wait_for(self, port: int, seconds: float = 30) -> None:
        """Until something listens on the port."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return
        raise SystemExit(f"{self._process.args} does not listen:\n{self._log.read_text(errors='replace')[-4000:]}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu(self) -> float:
        """Seconds of user and system time so far, those of ended children included."""
        return sum(_cpu_of(pid) for pid in self._pids())

    def cpu_when_idle(self) -> float:
        """The same once nothing runs any more: what is done behind the answers counts too."""
        before = self.cpu()
        while True:
            time.sleep(_IDLE)
            now = self.cpu()
            if now - before < 2 * _TICK:
                return now
            before = now

    def memory(self) -> int:
        """Resident bytes now."""
        pages = sum(int(_read(pid, "statm").split()[1]) for pid in self._pids())
        return pages * os.sysconf("SC_PAGE_SIZE")

    def peak_memory(self) -> int:
        """The most bytes that were ever resident: of each process its own peak, added up."""
        return sum(_peak_of(pid) for pid in self._pids())

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _pids(self) -> list[int]:
        parents = {pid: int(fields[1]) for pid in _all_pids() if (fields := _fields(pid))}
        tree = [self._process.pid]
        for pid in tree:
            tree.extend(child for child, parent in parents.items() if parent == pid)
        return tree


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _fields(pid: int) -> list[str]:
    """Of proc(5)'s `stat` all behind the name, which may hold spaces: state, parent, …"""
    return _read(pid, "stat").rpartition(")")[2].split()


def _cpu_of(pid: int) -> float:
    fields = _fields(pid)
    return sum(int(ticks) for ticks in fields[11:15]) * _TICK if fields else 0.0


def _peak_of(pid: int) -> int:
    lines = (line.split() for line in _read(pid, "status").splitlines())
    return sum(int(words[1]) * 1024 for words in lines if words and words[0] == "VmHWM:")
