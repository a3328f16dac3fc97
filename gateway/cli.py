"""The command line: reads arguments and settings, calls one command, says in a sentence what went wrong.

Commands are imported when they are called, so that `--help` and a completion do not wait for a web server.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli_backends import backends
from gateway.cli_database import database
from gateway.cli_keys import keys
from gateway.cli_options import LOCAL, ApiKey, AsJson, Config, Cursor, Database, GatewayUrl, Limit, remote, told
from gateway.cli_training import training
from gateway.cli_weights import weighing
from gateway.commands.errors import CommandFailed, WrongUse

if TYPE_CHECKING:
    from gateway.commands.reading import Reader
    from gateway.settings import Settings

app = typer.Typer(
    name="rollout-gateway",
    help="Records what RL agents' models really sampled: exact token ids and logprobs, from any engine.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
sessions = typer.Typer(help="Sessions that a running gateway has recorded.", no_args_is_help=True)
traces = typer.Typer(help="Traces that a running gateway has recorded.", no_args_is_help=True)
app.add_typer(training)
app.add_typer(weighing)
app.add_typer(sessions, name="sessions")
app.add_typer(traces, name="traces")
app.add_typer(backends, name="backends")
app.add_typer(database, name="db")
app.add_typer(keys, name="keys")


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point: an error that a person can act on is a sentence on the standard error."""
    try:
        app(arguments)
    except CommandFailed as exc:
        print("rollout-gateway:", str(exc).replace("\n", "\n  "), file=sys.stderr)  # noqa: T201
        sys.exit(exc.exit_status)


@app.command()
def serve(
    *,
    backend: Annotated[
        list[str] | None,
        typer.Option(metavar="URL[,engine=…,name=…,api_key_env=…]", help="An inference server; repeatable."),
    ] = None,
    config: Config = None,
    host: Annotated[str | None, typer.Option(help="127.0.0.1 unless configured; others need keys.")] = None,
    port: Annotated[int | None, typer.Option(help="9090 unless configured; 0 takes any free one.")] = None,
    database: Database = None,
    spool: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keeps traces while the database is away; beside it.")
    ] = None,
    durability: Annotated[
        str | None, typer.Option(metavar="power|process|none", help="What a record survives; process.")
    ] = None,
    capture: Annotated[
        str | None, typer.Option(metavar="exact|ids|stream", help="What may be given up for a stream.")
    ] = None,
    public_url: Annotated[str | None, typer.Option(help="Where agents reach it, behind a proxy.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes on one port; above 1 on PostgreSQL alone.")] = None,
    ready_file: Annotated[Path | None, typer.Option(help='Gets {"url": …, "pid": …} when the gateway listens.')] = None,
    log_level: Annotated[str | None, typer.Option(metavar="debug|info|warning|error")] = None,
    log_format: Annotated[
        str | None, typer.Option(metavar="auto|console|json", help="JSON unless at a terminal.")
    ] = None,
) -> None:
    """Serve agents in front of inference servers, and record every call.

    Each option is a setting too: in the file of --config, or as ROLLOUT_GATEWAY_PORT and the like.
    Keys are set in the environment alone: ROLLOUT_GATEWAY_KEYS, ROLLOUT_GATEWAY_ADMIN_KEY; or made by `keys create`.
    """
    settings = _settings(
        config,
        {
            "backends": backend or None,
            "host": host,
            "port": port,
            "database": database,
            "spool": spool,
            "durability": durability,
            "capture": capture,
            "public_url": public_url,
            "workers": workers,
            "log_level": log_level,
            "log_format": log_format,
        },
    )
    from gateway.commands.announce import announce
    from gateway.commands.serve import serve as run

    run(settings, ready_file=ready_file, announce=announce)


@app.command()
def demo(
    *,
    serve: Annotated[bool, typer.Option("--serve", help="Stay up afterwards.")] = False,
    port: Annotated[int | None, typer.Option(min=0, max=65535, help="Any free one unless given.")] = None,
) -> None:
    """A small agent against scripted vLLM, SGLang and Dynamo servers, and what is captured of it."""
    from gateway.demo import main as run

    raise typer.Exit(run(serve=serve, port=port))


@app.command()
def verify(
    url: Annotated[str, typer.Argument(help="An inference server, as for --backend.")],
    *,
    model: Annotated[str | None, typer.Option(help="The server's first unless given.")] = None,
    tokenizer: Annotated[str | None, typer.Option(metavar="PATH", help="The model's, to decode ids.")] = None,
    api_key_env: Annotated[str | None, typer.Option(help="The variable that holds the server's key.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The rows as JSON in place of a table.")] = False,
) -> None:
    """Check what the gateway would capture from a server: pass, fail or can't, row by row.

    Exits with 0 if nothing failed, 1 if something did, and 2 if the server can't be checked or the command is wrong.
    """
    from gateway.verify import main as run

    status = run(
        url, model=model, tokenizer=tokenizer, json_output=as_json, api_key_env=api_key_env, environ=os.environ
    )
    raise typer.Exit(status)


@app.command()
def status(*, url: GatewayUrl = LOCAL, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """How a running gateway does: what is wrong, what is not recorded yet, which backend is sick, what was changed."""
    from gateway.commands.screen import Screen
    from gateway.commands.status import StatusCommand

    StatusCommand(remote(url, api_key), Screen.standard(as_json=as_json)).show()


@sessions.command("list")
def list_sessions(
    *,
    run: Annotated[str | None, typer.Option(help="Of this run_id.")] = None,
    group: Annotated[str | None, typer.Option(help="Of this group_id.")] = None,
    status: Annotated[str | None, typer.Option(metavar="open|finished|failed|aborted")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """A line a session, from the oldest on; --cursor goes on where the page before ended.

    Into a pipe its columns are separated by tabs.
    """
    filters = told(run_id=run, group_id=group, status=status, cursor=cursor)
    _reader(url, api_key, as_json).sessions(filters | {"limit": str(limit)})


@sessions.command("show")
def show_session(session_id: str, *, url: GatewayUrl = LOCAL, api_key: ApiKey = None) -> None:
    """One session, as JSON."""
    _reader(url, api_key, as_json=True).session(session_id)


@traces.command("list")
def list_traces(
    *,
    session: Annotated[str | None, typer.Option(help="Of this session_id.")] = None,
    run: Annotated[str | None, typer.Option(help="Of this run_id.")] = None,
    status: Annotated[str | None, typer.Option(metavar="ok|backend_error|…")] = None,
    fidelity: Annotated[str | None, typer.Option(metavar="exact|partial|retokenized|none")] = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    url: GatewayUrl = LOCAL,
    api_key: ApiKey = None,
    as_json: AsJson = False,
) -> None:
    """A line a trace: how it was captured, and how sure its tokens are.

    From the oldest on, those of one --session by their turns; --cursor goes on where the page before ended. Into a pipe
    its columns are separated by tabs.
    """
    filters = told(session_id=session, run_id=run, status=status, fidelity=fidelity, cursor=cursor)
    _reader(url, api_key, as_json).traces(filters | {"limit": str(limit)})


@traces.command("show")
def show_trace(trace_id: str, *, url: GatewayUrl = LOCAL, api_key: ApiKey = None, as_json: AsJson = False) -> None:
    """One trace with its ids."""
    _reader(url, api_key, as_json).trace(trace_id)


def _settings(config: Path | None, flags: Mapping[str, object]) -> Settings:
    from gateway.settings import SettingsError, load

    try:
        return load(config=config, environ=os.environ, flags=flags)
    except SettingsError as exc:
        raise WrongUse(str(exc)) from exc


def _reader(url: str, api_key: str | None, as_json: bool) -> Reader:
    from gateway.commands.reading import Reader
    from gateway.commands.screen import Screen

    return Reader(remote(url, api_key), Screen.standard(as_json=as_json))
