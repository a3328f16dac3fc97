"""`pause`, `resume` and `weight-version`: what a trainer's script does while weights change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli_options import LOCAL, ApiKey, AsJson, GatewayUrl, Limit, remote, told
from gateway.commands.errors import WrongUse

if TYPE_CHECKING:
    from gateway.commands.weights import Weights

weighing = typer.Typer()

PauseId = Annotated[str | None, typer.Option("--id", help="The pause's own id.")]


@weighing.command("pause")
def pause(
    backends: Annotated[
        list[str] | None, typer.Argument(metavar="[BACKEND]…", help="By name; all unless given.")
    ] = None,
    *,
    pause_id: PauseId = None,
    wait: Annotated[float, typer.Option(min=0, help="Seconds to wait for calls in flight.")] = 0.0,
    ttl: Annotated[float | None, typer.Option(help="Seconds after which it ends by itself; 600.")] = None,
    mode: Annotated[str | None, typer.Option(metavar="hold|reject", help="What new calls do; hold.")] = None,
    max_hold: Annotated[float | None, typer.Option(help="Seconds that one call may wait.")] = None,
    move: Annotated[bool, typer.Option("--move", help="Sessions go to a backend that is not paused.")] = False,
    engine: Annotated[
        str | None, typer.Option(metavar="wait|keep|abort", help="Pause the engines themselves too.")
    ] = None,
    owner: Annotated[str | None, typer.Option(help="Whose it is, for people.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Show what is paused, and pause nothing.")] = False,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Hold new calls while weights change. Prints the pause's id, for `resume --id`.

    Exits with 1 where calls are still in flight after --wait; the pause stands all the same.
    """
    weights = _weights(url, api_key, as_json=as_json)
    if show:
        weights.list_pauses()
        return
    asked = told(pause_id=pause_id, mode=mode, owner=owner, engine=engine)
    numbers = told(ttl=ttl, max_hold=max_hold)
    weights.pause({**asked, **numbers, "move": move, **({"backends": backends} if backends else {})}, wait)


@weighing.command("resume")
def resume(
    backends: Annotated[
        list[str] | None, typer.Argument(metavar="[BACKEND]…", help="By name: whatever stands over them ends.")
    ] = None,
    *,
    pause_id: PauseId = None,
    everything: Annotated[bool, typer.Option("--all", help="Every pause, whoever's it is.")] = False,
    flush: Annotated[bool, typer.Option("--flush", help="Empty the engines' caches first.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also where an engine refuses to go on.")] = False,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Let calls go on: those of one pause (--id), of some backends, or all (--all)."""
    if not (backends or pause_id or everything):
        raise WrongUse("say which: --id ID, a backend's name, or --all")
    which = told(pause_id=pause_id)
    named = {"backends": backends} if backends else {}
    asked = {**which, **named, "all": everything, "flush": flush, "force": force}
    _weights(url, api_key, as_json=as_json).resume(asked)


@weighing.command("weight-version")
def weight_version(
    version: Annotated[
        str | None, typer.Argument(help="The version from now on; shows the present ones unless given.")
    ] = None,
    *,
    backend: Annotated[list[str] | None, typer.Option(help="Of this one alone; repeatable.")] = None,
    events: Annotated[bool, typer.Option("--events", help="Show which version was there when.")] = False,
    limit: Limit = 20,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Show or say which weights the backends have."""
    weights = _weights(url, api_key, as_json=as_json)
    if version is not None:
        weights.set_version(version, backend or [])
    elif events:
        weights.show_events(limit)
    else:
        weights.show_versions()


def _weights(url: str, api_key: str | None, *, as_json: bool) -> Weights:
    from gateway.commands.screen import Screen
    from gateway.commands.weights import Weights

    return Weights(remote(url, api_key), Screen.standard(as_json=as_json))
