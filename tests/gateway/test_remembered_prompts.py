"""Whose prompts a gateway remembers, so that a session's next one is decoded only as far as it is new."""

from __future__ import annotations

import gc
from pathlib import Path

from adapters.prompts import ToldPrompts
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, gateway


async def test_a_call_that_named_no_session_leaves_no_prompt_for_a_next_one(tmp_path: Path) -> None:
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        for path in (CHAT, f"/sessions/s1{CHAT}"):
            for stream in (False, True):
                assert (await served.agent.post(path, json={**HELLO, "stream": stream})).status_code == 200
        remembered = [set(each._kept) for each in gc.get_objects() if isinstance(each, ToldPrompts)]
    assert {"s1"} in remembered
    assert all(kept <= {"s1"} for kept in remembered)
