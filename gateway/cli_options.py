"""Options that several commands have, and what these come to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

import typer

if TYPE_CHECKING:
    from gateway.commands.remote import Remote

Value = TypeVar("Value")

GatewayUrl = Annotated[str, typer.Option("--url", envvar="ROLLOUT_GATEWAY_URL", help="Where the gateway is.")]
ApiKey = Annotated[
    str | None,
    typer.Option("--api-key", envvar=["ROLLOUT_GATEWAY_API_KEY", "ROLLOUT_GATEWAY_ADMIN_KEY"], help="Its admin key."),
]
AsJson = Annotated[bool, typer.Option("--json", help="The answer's own JSON in place of a table.")]
Limit = Annotated[int, typer.Option(min=1, max=1000)]
Cursor = Annotated[str | None, typer.Option(help="Where the page before ended, as it said itself.")]
Database = Annotated[str | None, typer.Option("--database", help="URL; sqlite:///rollouts.db unless configured.")]
Config = Annotated[Path | None, typer.Option("--config", envvar="ROLLOUT_GATEWAY_CONFIG", help="A YAML file.")]
LOCAL: Final = "http://127.0.0.1:9090"


def remote(url: str, api_key: str | None) -> Remote:
    from gateway.commands.remote import Remote

    return Remote(url.rstrip("/"), api_key)


def told(**options: Value | None) -> dict[str, Value]:
    """Those that were given."""
    return {name: value for name, value in options.items() if value is not None}
