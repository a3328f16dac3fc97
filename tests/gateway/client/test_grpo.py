"""The program of docs/grpo.md runs as it stands, against the demo."""

from __future__ import annotations

import asyncio
import re
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.client import AsyncClient

EXAMPLE = Path(__file__).parents[3] / "docs" / "grpo.py"
LINE = (
    r"(\w+): rewards \[([\d., ]+)\], "
    r"\{'token_ids': \((\d+), (\d+)\), 'logprobs': \(\3, \4\), 'advantages': \(\3, \4\)\}"
)


@asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            await process.communicate()


async def served(demo: Process) -> str:
    """Its URL, once it stays up."""
    assert demo.stdout is not None
    shown = ""
    while "Ctrl-C" not in shown:
        line = await demo.stdout.readline()
        assert line, shown
        shown += line.decode()
    (url,) = set(re.findall(r"^API +(http://[\d.:]+)/docs", shown, re.MULTILINE))
    return url


async def test_the_example_trains_on_two_groups_of_eight() -> None:
    async with asyncio.timeout(90), started("-m", "gateway", "demo", "--serve") as demo:
        url = await served(demo)
        async with started(str(EXAMPLE), url) as example:
            told, _ = await example.communicate()
        async with AsyncClient(url) as client:
            groups = [group async for group in client.groups(complete=True)]
            undelivered = [sample async for sample in client.samples(run=groups[0].run_id, undelivered_to="default")]
    assert example.returncode == 0
    lines = [re.fullmatch(LINE, line) for line in told.decode().splitlines()]
    assert sorted(line[1] for line in lines if line) == ["clothes", "weather"]
    for line in lines:
        assert line is not None
        assert len(line[2].split(",")) == int(line[3]) == 8
    assert [(group.size, group.finished) for group in groups] == [(8, 8), (8, 8)]
    assert undelivered == []


def test_the_page_shows_the_program_as_it_is() -> None:
    page = EXAMPLE.with_suffix(".md").read_text()
    program = EXAMPLE.read_text()
    for shown in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        assert shown in program
