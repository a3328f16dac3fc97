"""`backends`: the inference servers behind a running gateway, which take and give up sessions while it serves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from gateway.cli_options import LOCAL, ApiKey, AsJson, GatewayUrl, remote, told
from gateway.commands.errors import WrongUse

if TYPE_CHECKING:
    from gateway.commands.backends import BackendsCommand

backends = typer.Typer(help="The inference servers behind a running gateway.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The backend's name, as `backends list` tells it.")]
Engine = Annotated[str | None, typer.Option(help="Found by asking unless given.")]
Version = Annotated[str | None, typer.Option(help="Of the engine.")]
Model = Annotated[list[str] | None, typer.Option(metavar="NAME", help="A model that it serves, or qwen*; repeatable.")]
Alias = Annotated[list[str] | None, typer.Option(metavar="ASKED=SERVED", help="Another name for a model; repeatable.")]
Tokenizer = Annotated[str | None, typer.Option(metavar="FOLDER", help="On the gateway's machine.")]
KeyEnv = Annotated[str | None, typer.Option(help="The gateway's variable that has the server's key.")]
Weight = Annotated[float | None, typer.Option(help="Its share of sessions; 1 unless given.")]

_NOTHING: Final[Mapping[str, Any]] = {"features": [], "models": [], "control_urls": [], "aliases": {}}
"""What unsets a field, where that is not null."""


@backends.command("list")
def list_backends(*, url: GatewayUrl = LOCAL, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """How each does: health, what is in flight, engine, models."""
    _command(url, api_key, as_json=as_json).show()


@backends.command("add")
def add(
    backend_url: Annotated[str, typer.Argument(metavar="URL", help="An inference server.")],
    *,
    name: Annotated[str | None, typer.Option(help="The URL without its scheme unless given.")] = None,
    engine: Engine = None,
    version: Version = None,
    model: Model = None,
    alias: Alias = None,
    tokenizer: Tokenizer = None,
    api_key_env: KeyEnv = None,
    weight: Weight = None,
    weight_version: Annotated[str | None, typer.Option(help="Which weights it has.")] = None,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Let one more server serve, once it has said what it is. It stays over restarts."""
    words = told(name=name, engine=engine, version=version, tokenizer=tokenizer, api_key_env=api_key_env)
    known = {"url": backend_url, **words, **_lists(model, alias), **told(weight=weight, weight_version=weight_version)}
    _command(url, api_key, as_json=as_json).add(known)


@backends.command("change")
def change(
    name: Name,
    *,
    to: Annotated[str | None, typer.Option(metavar="URL", help="Another address; its key is taken away.")] = None,
    engine: Engine = None,
    version: Version = None,
    model: Model = None,
    alias: Alias = None,
    tokenizer: Tokenizer = None,
    api_key_env: KeyEnv = None,
    weight: Weight = None,
    clear: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help="Unset it: engine, models, weight …; repeatable.")
    ] = None,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Change what is given, and leave the rest; of one that the configuration names only its weight."""
    unset = {field: _NOTHING.get(field) for field in clear or ()}
    words = told(url=to, engine=engine, version=version, tokenizer=tokenizer, api_key_env=api_key_env)
    changes = {**unset, **words, **_lists(model, alias), **told(weight=weight)}
    if not changes:
        raise WrongUse("say what is to be another: --to, --weight, --model, --alias, --clear …")
    _command(url, api_key, as_json=as_json).change(name, changes)


@backends.command("drain")
def drain(
    name: Name,
    *,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for it to be empty.")] = 0.0,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """No session begins there any more; those that it has go on until they end.

    With --wait it exits with 1 where some are left; the drain goes on all the same.
    """
    _command(url, api_key, as_json=as_json).drain(name, wait)


@backends.command("undrain")
def undrain(name: Name, *, url: GatewayUrl = LOCAL, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """Let it take sessions again, after a drain, or after the removal of one that the configuration names."""
    _command(url, api_key, as_json=as_json).undrain(name)


@backends.command("remove")
def remove(name: Name, *, url: GatewayUrl = LOCAL, api_key: ApiKey = None) -> None:
    """No more calls go there; its sessions go on at others."""
    _command(url, api_key, as_json=False).remove(name)


@backends.command("probe")
def probe(name: Name, *, url: GatewayUrl = LOCAL, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """Ask it again what it is."""
    _command(url, api_key, as_json=as_json).probe(name)


def _lists(models: list[str] | None, aliases: list[str] | None) -> dict[str, Any]:
    """Those that were given, as fields of a body. Raises WrongUse."""
    pairs = [alias.partition("=") for alias in aliases or ()]
    if not all(asked and served for asked, _, served in pairs):
        raise WrongUse("an alias is written ASKED=SERVED: --alias gpt-4o=qwen3-4b")
    return told(models=models or None, aliases={asked: served for asked, _, served in pairs} or None)


def _command(url: str, api_key: str | None, *, as_json: bool) -> BackendsCommand:
    from gateway.commands.backends import BackendsCommand
    from gateway.commands.screen import Screen

    return BackendsCommand(remote(url, api_key), Screen.standard(as_json=as_json))
