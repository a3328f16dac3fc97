"""The demo from start to end: servers, gateway, agent, then a look at what the database has."""

from __future__ import annotations

import asyncio
import errno
import signal
import sys
import tempfile
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from rich.console import Console

from adapters.scripts import TELLING
from adapters.scripts.replies import by_turn
from adapters.scripts.speech import Called, say
from gateway.app import create_app
from gateway.client import AsyncClient
from gateway.commands.errors import CommandFailed
from gateway.commands.program import typed
from gateway.demo.agent import run_agent
from gateway.demo.captured import Captured
from gateway.demo.report import show_next, show_table, show_tokens
from gateway.scripted import ScriptedServer, listening, running
from gateway.settings import BackendSettings, Settings

_TURNS: Final = by_turn(
    say("Let me look it up.", calls=[Called("get_weather", '{"city": "Paris"}')]),
    say(calls=[Called("get_weather", '{"city": "London"}')]),
    say("It is 18 °C and sunny in Paris, and 11 °C with rain in London. ☂"),
)


def main(*, serve: bool, port: int | None) -> int:
    """0 if every token that was sampled is in the database, exactly; 1 otherwise. Raises CommandFailed."""
    console = Console(highlight=False)
    try:
        return asyncio.run(_until_told_to_stop(_demo(console, serve=serve, port=port or 0)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 0
    except OSError as exc:
        if exc.errno != errno.EADDRINUSE:
            raise
        raise CommandFailed(f"port {port} is in use; without --port any free one is taken") from exc


async def _until_told_to_stop(demo: Coroutine[object, object, int]) -> int:
    """SIGTERM takes it down in order, as asyncio itself has SIGINT do: or its folder would stay behind."""
    task = asyncio.ensure_future(demo)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await task


async def _demo(console: Console, *, serve: bool, port: int) -> int:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollout-gateway-demo-")))
        servers = {engine: ScriptedServer(engine, model=f"tiny-{engine}", reply=_TURNS) for engine in TELLING}
        urls = {engine: await stack.enter_async_context(running(server)) for engine, server in servers.items()}
        settings = Settings(
            database=f"sqlite:///{folder / 'rollouts.db'}",
            backends=tuple(BackendSettings(url=url, name=engine) for engine, url in urls.items()),
        )
        gateway = await stack.enter_async_context(listening(create_app(settings), port=port, lifespan=True))
        console.print(f"A gateway on {gateway} before scripted servers in the shapes of {', '.join(TELLING)}.\n")
        trainer = await stack.enter_async_context(AsyncClient(gateway))
        for engine, server in servers.items():
            await _found_out(trainer, engine, server)
        sessions = [await _rollout(console, trainer, engine, server) for engine, server in servers.items()]
        show_table(console, sessions)
        show_tokens(console, sessions[0])
        defects = [defect for session in sessions for defect in session.defects(servers[session.engine].calls)]
        for defect in defects:
            console.print(defect, style="bold red")
        if defects:
            return 1
        console.print("Each id and each logprob is the one that its server sampled.\n", style="bold")
        show_next(console, gateway, typed(sys.argv[0], Path.cwd()), serving=serve)
        if serve:
            await asyncio.Event().wait()
        return 0


async def _found_out(trainer: AsyncClient, engine: str, server: ScriptedServer) -> None:
    """Have the gateway find out what the server is, so that the ledger then holds the agent's calls alone."""
    await trainer.probe_backend(engine)
    server.requests.clear()


async def _rollout(console: Console, trainer: AsyncClient, engine: str, server: ScriptedServer) -> Captured:
    """One session: made by its trainer, used by its agent, read back by its trainer."""
    async with trainer.session(session_id=f"demo-{engine}", run="demo", group="weather") as session:
        console.print(f"[bold]{session.id}[/bold]  base_url = {session.base_url}")
        await run_agent(
            session.base_url, session.key, server.script.model, lambda said: console.print(f"  {said}", markup=False)
        )
    return Captured(session.id, engine, tuple([trace async for trace in trainer.traces(session=session.id)]))
