"""Whose prompts a gateway remembers, so that a session's next one is decoded only as far as it is new."""

from __future__ import annotations

import gc
from pathlib import Path

from adapters.prompts import ToldPrompts
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, gateway


def remembered() -> list[ToldPrompts]:
    return [each for each in gc.get_objects() if isinstance(each, ToldPrompts)]


async def test_a_call_that_named_no_session_leaves_no_prompt_for_a_next_one(tmp_path: Path) -> None:
    others = remembered()
    earlier = {id(each) for each in others}
    async with running(ScriptedServer("vllm")) as backend, gateway(tmp_path, backend) as served:
        for path in (CHAT, f"/sessions/s1{CHAT}"):
            for stream in (False, True):
                assert (await served.agent.post(path, json={**HELLO, "stream": stream})).status_code == 200
        kept = [set(each._kept) for each in remembered() if id(each) not in earlier]
    del others  # Held till here, so that no id of theirs is given to another.
    assert {"s1"} in kept
    assert all(each <= {"s1"} for each in kept)
