"""`serve --workers N`: several gateways on one listener and one database, each a process of its own.

They inherit one listening socket, instead of one each with SO_REUSEPORT: whoever has time takes the next connection,
and none waits in the queue of a gateway that is busy, or is reset with it where it dies.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from gateway.commands.errors import CommandFailed
from gateway.commands.listening import announced
from gateway.commands.process import log, serve_on
from gateway.commands.supervisor import Supervisor, Tell
from gateway.settings import Settings

# Beyond the grace of the calls: what a gateway needs for its last words and its writer for its last rows.
_MARGIN: Final = 30.0


def serve_with_workers(
    settings: Settings, *, ready_file: Path | None, announce: Callable[[Settings, str], None]
) -> None:
    """Serve until told to stop. Raises CommandFailed."""
    with (
        announced(settings, ready_file=ready_file, announce=announce) as (listeners, ready),
        TemporaryDirectory(prefix="rollout-gateway-") as folder,
    ):

        def work(number: int, tell: Tell) -> None:
            from gateway.app import create_app
            from gateway.sight.siblings import Siblings

            log(settings, number)
            siblings = Siblings(Path(folder), number, settings.workers)
            try:
                serve_on(create_app(settings, os.environ, siblings), settings, listeners, lambda: tell(None))
            except CommandFailed as exc:
                tell(str(exc))
                raise SystemExit(exc.exit_status) from None

        def close() -> None:
            # Or the kernel would take connections that nobody serves.
            for listener in listeners:
                listener.close()

        def all_ready() -> None:
            ready()
            logging.getLogger(__name__).info("%d workers serve", settings.workers)

        Supervisor(
            work,
            settings.workers,
            on_ready=all_ready,
            on_stop=close,
            stop_within=settings.stop_notice + settings.stop_grace + _MARGIN,
        ).run()
