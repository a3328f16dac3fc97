"""`db`: what is done to a database as a whole, by itself or through the gateway that has it open."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli_options import ApiKey, AsJson, Config, Database, remote, told
from gateway.commands.errors import WrongUse

if TYPE_CHECKING:
    from gateway.commands.upkeep import Keeper

database = typer.Typer(help="The database: its schema, what it takes on disk, what goes.", no_args_is_help=True)

AskedGateway = Annotated[
    str | None,
    typer.Option("--url", help="Through the gateway that is there, in place of the database itself; calls go on."),
]


@database.command("upgrade")
def upgrade(*, url: Database = None, config: Config = None) -> None:
    """Bring the database to this program's schema, as `serve` does when it starts."""
    from rich.console import Console

    from gateway.commands.db import upgrade as run

    run(_place(config, url), Console())


@database.command("prune")
def prune(
    *,
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Nothing happened to them for so long: 30d, 12h, 90m.")
    ] = None,
    run: Annotated[str | None, typer.Option(help="Of this run_id; '' is of none.")] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(metavar="finished|failed|aborted|open", help="All but open unless given; repeatable."),
    ] = None,
    delivered_to: Annotated[
        str | None, typer.Option(metavar="CONSUMER", help="Only what this consumer has acknowledged.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    place: Database = None,
    config: Config = None,
    url: AskedGateway = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Delete whole sessions that are over, with all that is theirs, a small transaction each.

    At least an age or a run has to be named. Sessions that are claimed at the moment, and those with a call that runs,
    stay. A SQLite file becomes shorter by it; while a gateway has it open, go through that with --url.
    """
    from pydantic import ValidationError

    from gateway.api.storage import Prune
    from gateway.commands.age import seconds_of
    from gateway.commands.screen import Screen
    from gateway.commands.upkeep import prune as delete

    filters = told(run_id=run, status=status or None, delivered_to=delivered_to)
    age = told(older_than=None if older_than is None else seconds_of(older_than))
    try:
        asked = Prune.model_validate({**filters, **age, "dry_run": dry_run})
    except ValidationError as exc:
        reasons = "; ".join(each["msg"].removeprefix("Value error, ") for each in exc.errors())
        raise WrongUse(f"can't prune that: {reasons}") from exc
    delete(_keeper(config, place, url, api_key), asked, Screen.standard(as_json=as_json), sure=_sure(yes=yes))


@database.command("sizes")
def sizes(
    *,
    place: Database = None,
    config: Config = None,
    url: AskedGateway = None,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """What each run takes on disk, the largest first. Into a pipe its columns are separated by tabs."""
    from gateway.commands.screen import Screen
    from gateway.commands.upkeep import sizes as show

    show(_keeper(config, place, url, api_key), Screen.standard(as_json=as_json))


@database.command("check")
def check(*, place: Database = None, config: Config = None) -> None:
    """Read every trace back, and hold it against its digest. Exits with 1 where one is not what was written."""
    from rich.console import Console

    from gateway.commands.keeping import check as run

    run(_place(config, place), Console())


@database.command("backup")
def backup(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    *,
    place: Database = None,
    config: Config = None,
) -> None:
    """Copy a SQLite database as it is at one moment, also while a gateway writes to it."""
    from rich.console import Console

    from gateway.commands.keeping import backup as run

    run(_place(config, place), to, Console())


@database.command("import-spool")
def import_spool(
    folder: Annotated[Path, typer.Argument(help="A spool's folder, or one gateway's in it.")],
    *,
    place: Database = None,
    config: Config = None,
) -> None:
    """Bring in what a dead gateway had recorded while the database was away.

    What is in the database is then removed from the folder. Exits with 1 where something could not be brought in.
    """
    from rich.console import Console

    from gateway.commands.import_spool import import_spool as run

    run(folder, _place(config, place), Console())


def _keeper(config: Path | None, place: str | None, url: str | None, api_key: str | None) -> Keeper:
    from gateway.commands.upkeep import Direct, Gateway

    if url is None:
        return Direct(_place(config, place))
    if place is not None:
        raise WrongUse("--url and --database name two ways to the database: say one of them")
    return Gateway(remote(url, api_key))


def _sure(*, yes: bool) -> Callable[[str], bool]:
    def sure(what: str) -> bool:
        return yes or typer.confirm(f"Delete {what}?", err=True)

    return sure


def _place(config: Path | None, url: str | None) -> str:
    from gateway.settings import SettingsError, load

    try:
        return load(config=config, environ=os.environ, flags={"database": url}).database
    except SettingsError as exc:
        raise WrongUse(str(exc)) from exc
