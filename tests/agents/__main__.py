"""`python -m tests.agents [NAME …]`: agent programs play a task of two files against a scripted backend.

A line each, as Markdown, on stdout. 1 as exit code where one fails, a call is missing or not exact, its agents are not
told apart, or a sampled token is not once in the session's samples.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gateway.scripted import ScriptedServer, running
from tests.agents.programs import Program, programs
from tests.agents.task import FILES
from tests.engines.gateway_process import Api, serving

_LONGEST = 120
"""Seconds that a program may take."""


async def played(program: Program, folder: Path, work: Path, home: Path) -> list[str]:
    """What is wrong with it."""
    server = ScriptedServer("vllm", reply=program.reply)
    async with running(server) as backend:
        return await asyncio.to_thread(_played, program, server, backend, folder, work, home)


def _played(program: Program, server: ScriptedServer, backend: str, folder: Path, work: Path, home: Path) -> list[str]:
    with serving(backend, folder) as api:
        session = api.create_session("agents", "exact")
        status = _run(program, f"{api.url}/sessions/{session.session_id}", folder, work, home)
        api.finish(session.session_id)
        wrong = [*_wrong_with_calls(program, api, session.session_id, server)]
    if status != 0:
        wrong.append(f"it ended with {status}: {(folder / 'agent.log').read_text()[-300:]!r}")
    return wrong + [f"no {name}" for name in FILES if not (work / name).exists()]


def _run(program: Program, base: str, folder: Path, work: Path, home: Path) -> int | None:
    for path, text in program.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("BASE", base))
    given = {name: value.replace("BASE", base) for name, value in program.env.items()}
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": str(home), "OPENAI_API_KEY": "none", **given}
    with (folder / "agent.log").open("wb") as log:
        try:
            return subprocess.run(
                program.command, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_LONGEST
            ).returncode
        except subprocess.TimeoutExpired:
            return None


def _wrong_with_calls(program: Program, api: Api, session_id: str, server: ScriptedServer) -> Iterator[str]:
    traces = api.traces_of(session_id)
    if len(traces) != len(server.calls) or not traces:
        yield f"{len(server.calls)} calls, and {len(traces)} traces"
    if others := [trace["fidelity"] for trace in traces if trace["fidelity"] != "exact"]:
        yield f"fidelity {', '.join(others)}"
    if (titles := sum(trace["purpose"] == "aux" for trace in traces)) != program.titles:
        yield f"{titles} calls are aux, and not {program.titles}"
    if (starts := api.drift(session_id)["counts"]["starts"]) != program.agents:
        yield f"{starts} agents, and not {program.agents}"
    if (named := _named(api, session_id)) != (program.agents if program.named else 0):
        yield f"{named} agents by name"
    trained = Counter(
        tuple(row["token_ids"][span["start"] : span["end"]])
        for row in api.samples(session_id, aux="true")
        for span in row["spans"]
        if span["trained"] and all(row["mask"][span["start"] : span["end"]])
    )
    if trained != Counter(call.speeches[0].ids for call in server.calls):
        yield "not every sampled token stands once in the samples"


def _named(api: Api, session_id: str) -> int:
    """How many agents say who they are, all but the first of them as somebody's sub-agent."""
    agents = [agent for agent in api.agents(session_id) if agent["agent_id"] is not None]
    known = {agent["agent_id"] for agent in agents}
    spawned = [agent for agent in agents if agent["parent_agent_id"] in known]
    return len(agents) if len(spawned) == max(len(agents) - 1, 0) else -1


async def main(names: list[str]) -> int:
    failed = 0
    print("| program | |\n|---|---|")
    for number, named in enumerate([*programs(Path(), Path())]):
        if names and not any(name in named.name for name in names):
            continue
        with tempfile.TemporaryDirectory(prefix="rollout-gateway-agents-") as made:
            folder, work, home = (Path(made, name) for name in ("gateway", "work", "home"))
            for each in (folder, work, home):
                each.mkdir()
            program = [*programs(work, home)][number]
            wrong = await played(program, folder, work, home)
        failed += bool(wrong)
        print(f"| {program.name} | {'; '.join(wrong) or 'as it should be'} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
