"""A session in a `with`: made at its begin, ended at its end, whatever happens in it."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import pytest

from gateway.client import AsyncClient, Client, GatewayError, NotFound
from tests.gateway.api.harness import Api
from tests.gateway.client.harness import URL, Bridge, Loop, Reached, transport_of


def test_a_session_ends_with_its_block(gateway: Reached) -> None:
    with gateway.client.session(run="r1", group="task-7", group_size=8, metadata={"seed": 7}) as s:
        assert s.status == "open"
        assert s.session.group_size == 8
    told = gateway.client.read_session(s.id)
    assert (told.status, told.run_id, told.group_id, told.metadata) == ("finished", "r1", "task-7", {"seed": 7})
    assert told.finished_at > told.created_at


def test_an_agent_is_told_where_its_session_is(gateway: Reached) -> None:
    with gateway.client.session(session_id="s-1") as s:
        assert s.base_url == "http://127.0.0.1:9090/sessions/s-1/v1"
        assert s.anthropic_base_url == "http://127.0.0.1:9090/sessions/s-1"
        assert s.key.startswith("rgs-")
        assert s.key not in repr(s)
        assert s.env() == {
            "OPENAI_BASE_URL": s.base_url,
            "OPENAI_API_BASE": s.base_url,
            "OPENAI_API_KEY": s.key,
            "ANTHROPIC_BASE_URL": s.anthropic_base_url,
            "ANTHROPIC_API_KEY": s.key,
        }


def test_an_exception_fails_the_session_and_goes_on(gateway: Reached) -> None:
    with pytest.raises(RuntimeError, match="the agent gave up"), gateway.client.session(session_id="s-1"):
        raise RuntimeError("the agent gave up")
    assert gateway.client.read_session("s-1").status == "failed"


def test_a_session_that_its_block_finished_keeps_its_status(gateway: Reached) -> None:
    with gateway.client.session(session_id="s-1") as s:
        s.finish("aborted")
        assert s.status == "aborted"
    assert gateway.client.read_session("s-1").status == "aborted"


def test_what_fails_because_of_an_exception_is_a_note_on_it(gateway: Reached) -> None:
    def rollout() -> None:
        with gateway.client.session(session_id="s-1"):
            gateway.client.delete_session("s-1")
            raise RuntimeError("the agent gave up")

    with pytest.raises(RuntimeError) as caught:
        rollout()
    (note,) = caught.value.__notes__
    assert note.startswith("And session s-1 could not be finished: ")


def test_ctrl_c_aborts_the_session(application: Api, loop: Loop) -> None:
    with (
        Client(URL, transport=Bridge(loop, transport_of(application))) as client,
        pytest.raises(KeyboardInterrupt),
        client.session(session_id="s-1"),
    ):
        raise KeyboardInterrupt
    assert loop.run(application.sessions.get("s-1")).status == "aborted"


def test_a_cancelled_session_is_aborted(application: Api, loop: Loop) -> None:
    async def rollout() -> None:
        async with AsyncClient(URL, transport=transport_of(application)) as client, client.session(session_id="s-1"):
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(60)

    with pytest.raises(concurrent.futures.CancelledError):
        loop.run(rollout())
    assert loop.run(application.sessions.get("s-1")).status == "aborted"


def test_sessions_are_made_changed_listed_and_deleted(gateway: Reached) -> None:
    made: list[Any] = [gateway.client.create_session(run="r1", group=f"g{number % 2}") for number in range(5)]
    gateway.client.finish_session(made[0].id)
    gateway.client.change_session(made[1].id, group="g9", attempt=2)
    gateway.client.delete_session(made[2].id)
    listed = list(gateway.client.sessions(run="r1", page_size=2))
    assert [session.session_id for session in listed] == [made[number].id for number in (0, 1, 3, 4)]
    assert [session.status for session in listed] == ["finished", "open", "open", "open"]
    assert (listed[1].group_id, listed[1].attempt) == ("g9", 2)
    assert [session.session_id for session in gateway.client.sessions(group="g0", status="open")] == [made[4].id]
    with pytest.raises(NotFound) as caught:
        gateway.client.read_session(made[2].id)
    assert (caught.value.status, caught.value.code) == (410, "session_deleted")
    assert isinstance(caught.value, GatewayError)
