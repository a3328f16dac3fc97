"""The commands that trainers and owners of agents use: samples, drift, export."""

from __future__ import annotations

from typing import Annotated

import typer

from gateway.cli_options import LOCAL, ApiKey, AsJson, Cursor, GatewayUrl, remote, told
from gateway.commands.errors import WrongUse

training = typer.Typer()
Statuses = Annotated[
    list[str] | None,
    typer.Option("--status", metavar="finished|failed|aborted", help="Of sessions; finished unless given; repeatable."),
]
Style = Annotated[str | None, typer.Option(metavar="merged|traces", help="A row a path, or a row a choice.")]


@training.command()
def samples(
    session: Annotated[str | None, typer.Argument(help="Of this session, whatever its status.")] = None,
    *,
    run: Annotated[str | None, typer.Option(help="Of this run_id.")] = None,
    group: Annotated[str | None, typer.Option(help="Of this group_id.")] = None,
    status: Statuses = None,
    style: Style = None,
    fatal: Annotated[bool, typer.Option("--fatal", help="Those with a fatal finding (marked !) too.")] = False,
    limit: Annotated[int | None, typer.Option(min=1, max=1000, help="Sessions; 20 unless given.")] = None,
    cursor: Cursor = None,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """A line a training sample: of ended sessions in the order of their ends, or of one SESSION.

    Into a pipe its columns are separated by tabs.
    """
    from gateway.commands.samples import Samples
    from gateway.commands.screen import Screen

    chosen = told(run_id=run, group_id=group, status=_listed(status), cursor=cursor)
    filters = told(style=style, fatal="true" if fatal else None)
    if session is None:
        filters |= chosen | {"limit": str(limit or 20)}
    elif chosen or limit is not None:
        raise _one_is_whole()
    Samples(remote(url, api_key), Screen.standard(as_json=as_json)).show(session, filters)


@training.command()
def export(
    destination: Annotated[str, typer.Argument(help="A folder, or a URL that fsspec knows: s3://bucket/folder.")],
    *,
    of: Annotated[str, typer.Option(metavar="samples|traces")] = "samples",
    file_format: Annotated[str, typer.Option("--format", metavar="parquet|jsonl|arrow")] = "parquet",
    shape: Annotated[str | None, typer.Option(help="Whose record a row is, as JSON lines; flat unless given.")] = None,
    run: Annotated[str | None, typer.Option(help="Of this run_id.")] = None,
    group: Annotated[str | None, typer.Option(help="Of this group_id.")] = None,
    session: Annotated[str | None, typer.Option(help="Of this session_id.")] = None,
    status: Statuses = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Sessions ended, traces begun, since then.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="And before then.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Any other parameter of /api/export, as in /docs; repeatable."),
    ] = None,
    style: Style = None,
    part: Annotated[int, typer.Option(min=1, max=1000, help="Sessions, or traces, a file.")] = 1000,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
) -> None:
    """Write samples, or traces, as files of a folder.

    Their names are run=…/day=…/part-00000.parquet. A second export to the same place goes on where the first was broken
    off, and adds what has come since.
    """
    from rich.console import Console

    from gateway.commands.exporting import Asked, Destination, Export

    asked = Asked.of_words(
        of,
        file_format,
        {
            "shape": shape,
            "run_id": run,
            "group_id": group,
            "session_id": session,
            "status": _listed(status),
            "style": style,
        },
        where or (),
        since=since,
        until=until,
    )
    Export(remote(url, api_key), Destination.of(destination), asked, Console(), part).run()


@training.command()
def drift(
    session: Annotated[str | None, typer.Argument(help="This session, call by call.")] = None,
    *,
    run: Annotated[str | None, typer.Option(help="Sessions of this run_id.")] = None,
    group: Annotated[str | None, typer.Option(help="Sessions of this group_id.")] = None,
    agent: Annotated[str | None, typer.Option(help="The calls of this agent alone.")] = None,
    status: Annotated[str | None, typer.Option(metavar="open|finished|failed|aborted")] = None,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """Where prompts stop extending what was sampled, and why.

    Of one SESSION every break with the two texts; else sums by run and agent, with an example of each cause.
    """
    from gateway.commands.drift import Drift
    from gateway.commands.screen import Screen

    report = Drift(remote(url, api_key), Screen.standard(as_json=as_json))
    chosen = told(run_id=run, group_id=group, agent=agent, status=status)
    if session is None:
        report.runs(chosen)
    elif chosen:
        raise _one_is_whole()
    else:
        report.session(session)


def _listed(statuses: list[str] | None) -> str | None:
    return ",".join(statuses) if statuses else None


def _one_is_whole() -> WrongUse:
    return WrongUse("one session is shown whole: leave out what chooses sessions")
