"""What `serve` says when it is ready: one screen with all that is needed to use it."""

from __future__ import annotations

import logging

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.settings import Settings, redacted
from gateway.sight.logs import is_json
from gateway.version import gateway_version

logger = logging.getLogger(__name__)


def announce(settings: Settings, url: str) -> None:
    """To the standard error, so that the standard output stays for what is asked for; a line of the log where that is
    for machines.
    """
    if is_json(settings.log_format):
        logger.info("rollout-gateway %s listens on %s", gateway_version(), url)
        return
    console = Console(stderr=True, highlight=False)
    console.print(Text.assemble(("rollout-gateway ", "bold"), f"{gateway_version()} listens on ", (url, "bold cyan")))
    table = Table.grid(padding=(0, 2, 0, 2))
    table.add_row("agents", Text(f"base_url = {url}/sessions/{{session_id}}/v1", "cyan"))
    table.add_row("", "any session_id; its calls become that session's traces")
    if settings.admin_port is not None:
        where = f"[{settings.admin_host}]" if ":" in settings.admin_host else settings.admin_host
        table.add_row("admin", f"http://{where}:{settings.admin_port}/api/admin, and there alone")
    table.add_row("traces", f"{url}/api/traces   or: rollout-gateway traces list --url {url}")
    table.add_row("database", redacted(settings.database))
    for number, backend in enumerate(settings.backends):
        engine = backend.engine or "engine found by asking"
        table.add_row("" if number else "backends", f"{backend.name}  {backend.url}  {engine}")
    if not settings.backends:
        table.add_row("backends", Text("none: calls are refused until one is added with --backend URL", "yellow"))
    table.add_row("capture", settings.capture)
    table.add_row("keys", f"{len(settings.keys)} for agents" if settings.keys else "none: loopback alone, any key goes")
    console.print(table, soft_wrap=True)
