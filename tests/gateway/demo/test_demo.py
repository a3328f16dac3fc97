"""The demo ends by itself, with 0 where every token is exact; and with `--serve` it stays until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
from pathlib import Path

import httpx
import pytest

from gateway.commands.errors import CommandFailed
from gateway.demo import main

# Python leaves SIGINT ignored where its parent ignored it, as a shell does for what runs in the background.
_AS_IN_A_SHELL = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from gateway.cli import main; main()"
)


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


def test_a_port_that_is_taken_leaves_nothing_else_to_read(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(CommandFailed):
        main(serve=False, port=taken.getsockname()[1])
    assert caplog.records == []


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM], ids=lambda told: told.name)
async def test_with_serve_it_stays_up_until_it_is_interrupted(told: signal.Signals, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", _AS_IN_A_SHELL),
        *("demo", "--serve"),
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"COLUMNS": "200", "TMPDIR": str(tmp_path)},
    )
    try:
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
        assert len(_names(tmp_path)) == 1
        process.send_signal(told)
        assert await asyncio.wait_for(process.wait(), 20) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [trace["turn"] for trace in traces] == [0, 1, 2]
    assert _names(tmp_path) == []
