"""What stands in front of the upstream, one at a time: how each is started, and where its traces are counted."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.processes import Tree
from benchmarks.upstream import start_proxy

RLLM: Final = "rllm-model-gateway"
OURS: Final = "rollout-gateway"
NGINX: Final = "nginx"


@dataclass(frozen=True, slots=True)
class Contender:
    """A running proxy."""

    name: str
    port: int
    tree: Tree
    count: Callable[[], int] | None
    """How many traces are committed in its database, seen from outside; None where it records nothing."""


def start_nginx(folder: Path, port: int, engine_port: int) -> Contender:
    return Contender(NGINX, port, start_proxy(folder, port, engine_port), None)


def start_rllm(folder: Path, port: int, engine_port: int, environment: Path) -> Contender:
    """rllm-model-gateway 0.1.0 as PyPI gives it, with its SQLite store, and quieter than its default."""
    database = folder / "rllm.db"
    tree = Tree(
        [
            *(str(environment / "bin" / "rllm-model-gateway"), "--host", "127.0.0.1", "--port", str(port)),
            *("--worker", f"http://127.0.0.1:{engine_port}/v1", "--store", "sqlite", "--db-path", str(database)),
            *("--log-level", "warning"),
        ],
        folder / "rllm.log",
    )
    tree.wait_for(port)
    return Contender(RLLM, port, tree, lambda: _count(database, "SELECT count(*) FROM traces"))


def start_ours(folder: Path, port: int, engine_port: int) -> Contender:
    """This gateway with its defaults, and its backend's engine found by asking."""
    database = folder / "ours.db"
    tree = Tree(
        [
            *(sys.executable, "-m", "gateway", "serve", "--port", str(port), "--database", f"sqlite:///{database}"),
            *("--backend", f"http://127.0.0.1:{engine_port}"),
        ],
        folder / "ours.log",
    )
    tree.wait_for(port)
    return Contender(OURS, port, tree, lambda: _count(database, "SELECT count(*) FROM traces WHERE status = 'ok'"))


def _count(database: Path, query: str) -> int:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=30) as db:
        count: int = db.execute(query).fetchone()[0]
    db.close()
    return count
