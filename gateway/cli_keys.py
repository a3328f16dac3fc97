"""`keys`: made, listed and revoked, through a gateway or in its database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli_options import LOCAL, ApiKey, AsJson, Config, remote, told
from gateway.commands.errors import WrongUse

if TYPE_CHECKING:
    from gateway.commands.keys import Keeper

keys = typer.Typer(help="Keys of agents, trainers and administrators.", no_args_is_help=True)

AskedGateway = Annotated[
    str | None,
    typer.Option("--url", envvar="ROLLOUT_GATEWAY_URL", help=f"Where the gateway is; {LOCAL} unless given."),
]
KeysDatabase = Annotated[
    str | None, typer.Option("--database", help="In the database itself in place of a gateway: for the very first.")
]


@keys.command("create")
def create(
    *,
    name: Annotated[str, typer.Option(help="Whose it is, or what for.")],
    scope: Annotated[
        list[str],
        typer.Option(metavar="infer|session:write|trace:read|reward:write|admin", help="What it may do; repeatable."),
    ],
    note: Annotated[str | None, typer.Option(help="Anything else.")] = None,
    expires_in: Annotated[str | None, typer.Option(metavar="AGE", help="30d, 12h, 90m; never unless given.")] = None,
    max_calls: Annotated[int | None, typer.Option(min=1, help="That run at a time.")] = None,
    calls_per_minute: Annotated[int | None, typer.Option(min=1)] = None,
    tokens_per_minute: Annotated[int | None, typer.Option(min=1, help="Of prompts and answers.")] = None,
    url: AskedGateway = None,
    api_key: ApiKey = None,
    database: KeysDatabase = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Make a key, with no scope that its maker's lacks. It is shown this once, and is all of the standard output."""
    from datetime import UTC, datetime, timedelta

    from pydantic import ValidationError

    from gateway.api.keys import NewKey
    from gateway.commands.age import seconds_of
    from gateway.commands.keys import create as make
    from gateway.commands.screen import Screen

    expires_at = None if expires_in is None else datetime.now(UTC) + timedelta(seconds=seconds_of(expires_in))
    limits = told(max_calls=max_calls, calls_per_minute=calls_per_minute, tokens_per_minute=tokens_per_minute)
    try:
        asked = NewKey.model_validate({"name": name, "scopes": scope, "note": note, "expires_at": expires_at, **limits})
    except ValidationError as exc:
        raise WrongUse("; ".join(f"{each['loc'][0]}: {each['msg']}" for each in exc.errors())) from exc
    make(_keeper(url, api_key, database, config), asked, Screen.standard(as_json=as_json))


@keys.command("list")
def list_keys(
    *,
    url: AskedGateway = None,
    api_key: ApiKey = None,
    database: KeysDatabase = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """A line a key, from the oldest on. Into a pipe its columns are separated by tabs."""
    from gateway.commands.keys import show
    from gateway.commands.screen import Screen

    show(_keeper(url, api_key, database, config), Screen.standard(as_json=as_json))


@keys.command("revoke")
def revoke(
    key_id: Annotated[str, typer.Argument(help="As `keys list` tells it.")],
    *,
    url: AskedGateway = None,
    api_key: ApiKey = None,
    database: KeysDatabase = None,
    config: Config = None,
) -> None:
    """End a key for good. Every gateway heeds it within seconds."""
    _keeper(url, api_key, database, config).revoke(key_id)


def _keeper(url: str | None, api_key: str | None, database: str | None, config: Path | None) -> Keeper:
    from gateway.commands.keys import Direct, Gateway
    from gateway.settings import SettingsError, load

    if database is None:
        return Gateway(remote(url or LOCAL, api_key))
    try:
        return Direct(load(config=config, environ=os.environ, flags={"database": database}).database)
    except SettingsError as exc:
        raise WrongUse(str(exc)) from exc
