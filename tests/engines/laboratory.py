"""The lab's engines as processes: installed where missing, one started at a time, stopped whatever happens."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.engines.setups import Setup

_SCRIPT: Final = Path(__file__).with_name("lab") / "lab.sh"
LAB: Final = Path(os.environ.get("LAB") or Path.home() / "engine-lab")
MODEL: Final = LAB / "models" / "tiny-scripted"


class LabFailed(Exception):
    """The lab's script did not do what it was asked to."""


def prepare(setup: Setup) -> str:
    """Install what is missing. The engine's version."""
    if not (MODEL / "model.safetensors").exists():
        _say("making the tiny model: about a minute, 1 GB of packages")
        _lab("model")
    version = _version(setup)
    if version is None:
        _say(f"installing {setup.engine}: {setup.install}")
        _lab("install", setup.engine)
        version = _version(setup)
    if version is None:
        raise LabFailed(f"{setup.package} is not in {LAB}/venv-{setup.engine} after its installation")
    return version


@contextmanager
def running(setup: Setup, *, model: Path = MODEL) -> Iterator[str]:
    """The engine on a free port of loopback, with the model of that folder; its URL."""
    port = _free_port()
    started = time.monotonic()
    _say(f"starting {setup.name} on port {port}: up to 3 minutes")
    try:
        _lab("start", setup.engine, str(port), *setup.arguments, model=model)
        _say(f"{setup.name} was ready after {time.monotonic() - started:.0f} s")
        yield f"http://127.0.0.1:{port}"
    finally:
        _lab("stop", setup.engine)


def _lab(*words: str, model: Path = MODEL) -> None:
    named = {**os.environ, "MODEL": str(model)}
    done = subprocess.run(["bash", str(_SCRIPT), *words], check=False, stdout=sys.stderr, env=named)
    if done.returncode:
        raise LabFailed(f"lab.sh {' '.join(words)} ended with {done.returncode}; {LAB}/logs says more")


def _version(setup: Setup) -> str | None:
    python = LAB / f"venv-{setup.engine}" / "bin" / "python"
    if not python.exists():
        return None
    ask = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    done = subprocess.run([python, "-c", ask, setup.package], check=False, capture_output=True, text=True)
    return done.stdout.strip() or None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _say(words: str) -> None:
    print(f"# {words}", file=sys.stderr, flush=True)
