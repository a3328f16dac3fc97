"""`serve`: from settings to the last answer, by one process or by several."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from gateway.commands.listening import announced
from gateway.commands.memory import share_memory
from gateway.commands.process import log, serve_on
from gateway.commands.server import Gateway
from gateway.settings import Settings


def serve(settings: Settings, *, ready_file: Path | None, announce: Callable[[Settings, str], None]) -> None:
    """Serve until told to stop. Raises CannotServe."""
    log(settings)
    share_memory()
    # Arrow's own allocator keeps what exports have used, some 40 MB. It is asked for when Arrow is first imported.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if settings.workers > 1:
        from gateway.commands.workers import serve_with_workers

        serve_with_workers(settings, ready_file=ready_file, announce=announce)
        return
    from gateway.app import create_app

    run(create_app(settings, os.environ), settings, ready_file=ready_file, announce=announce)


def run(
    gateway: Gateway, settings: Settings, *, ready_file: Path | None, announce: Callable[[Settings, str], None]
) -> None:
    """The same with a gateway that is made already."""
    with announced(settings, ready_file=ready_file, announce=announce) as (listeners, ready):
        serve_on(gateway, settings, listeners, ready)
