"""The demo ends by itself, with 0 where every token is exact; and with `--serve` it stays until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys

import httpx
import pytest

from gateway.commands.errors import CommandFailed
from gateway.demo import main


def test_the_demo_ends_with_0_and_shows_every_engine_exact(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(serve=False, port=None) == 0
    shown = capsys.readouterr().out
    rows = re.findall(r"^ +demo-(\w+) +\w+ +(\d) +(\w+) +(\w+) +(\d+) +(\d+) +(\d+) (\w+)", shown, re.MULTILINE)
    assert [row[0] for row in rows] == ["vllm", "sglang", "dynamo"]
    for _, turns, _, fidelity, given, sampled, logprobs, logprobs_fidelity in rows:
        assert (turns, fidelity, logprobs_fidelity) == ("3", "exact", "exact")
        assert int(given) > 0
        assert int(sampled) == int(logprobs) > 0
    assert "⟦Let│ me│ look" in shown
    assert "rollout-gateway demo --serve" in shown


def test_a_port_that_is_taken_is_said_in_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CommandFailed, match=f"port {port} is in use"):
            main(serve=False, port=port)


async def test_with_serve_it_stays_up_until_it_is_interrupted() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gateway",
        "demo",
        "--serve",
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"COLUMNS": "200"},
    )
    assert process.stdout is not None
    shown = ""
    async with asyncio.timeout(60):
        while "Ctrl-C" not in shown:
            line = await process.stdout.readline()
            assert line, shown
            shown += line.decode()
    url = re.search(r"http://[\d.:]+", shown)
    assert url is not None
    async with httpx.AsyncClient(base_url=url.group(), trust_env=False) as client:
        traces = (await client.get("/api/traces", params={"session_id": "demo-vllm"})).json()["items"]
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 20) == 0
    assert [trace["turn"] for trace in traces] == [0, 1, 2]
