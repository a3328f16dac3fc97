"""A trainer's update of weights, by both clients: all of it around the trainer's own code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.client import EngineRefused, InvalidCall, NotDrained, PauseExpired
from gateway.scripted import running
from tests.gateway.client.harness import Loop
from tests.gateway.harness import Running
from tests.gateway.weights.trained import Agents, Trained, gateway, held


class Trainer:
    """A gateway with one engine on the loop, and a client of it."""

    def __init__(self, loop: Loop, engine: Trained, served: Running, client: Any) -> None:
        self.loop = loop
        self.engine = engine
        self.served = served
        self.client = client


@contextmanager
def training(tmp_path: Path, loop: Loop, connect: Any, **engine: Any) -> Iterator[Trainer]:
    server = Trained(**engine)
    with loop.within(running(server)) as backend, loop.within(gateway(tmp_path, f"{backend},name=a")) as served:
        yield Trainer(loop, server, served, connect(url=served.url))


def test_no_call_is_lost_over_an_update_and_each_has_its_version(tmp_path: Path, loop: Loop, connect: Any) -> None:
    with training(tmp_path, loop, connect, version="0.20.2") as trainer:
        trainer.client.set_weight_version("v1")
        agents = Agents(trainer.served, 4)
        with loop.within(agents):
            for step in (2, 3):
                loop.run(agents.more(4))
                with trainer.client.weights_update(f"v{step}", wait=20, owner="trainer") as pause:
                    assert (pause.drained, pause.in_flight, pause.owner) == (True, 0, "trainer")
                    trainer.engine.load(f"v{step}")
            loop.run(agents.more(4))
        assert agents.failures == []
        assert {version for version, _ in agents.answers} == {"v1", "v2", "v3"}
        assert all(text == f"by {version}" for version, text in agents.answers)
        assert trainer.client.pauses() == ()
        assert trainer.client.weight_versions().weight_version == "v3"
        changes = list(trainer.client.weight_events(backend="a", page_size=2))
        assert [(each.previous, each.weight_version) for each in changes] == [(None, "v1"), ("v1", "v2"), ("v2", "v3")]


def test_an_update_that_fails_lets_calls_go_on_with_the_weights_as_they_were(
    tmp_path: Path, loop: Loop, connect: Any
) -> None:
    with training(tmp_path, loop, connect) as trainer:
        trainer.client.set_weight_version("v1")
        with pytest.raises(RuntimeError, match="out of memory"), trainer.client.weights_update("v2"):
            raise RuntimeError("out of memory")
        assert trainer.client.pauses() == ()
        assert trainer.client.weight_versions().weight_version == "v1"


def test_calls_that_do_not_end_in_time_are_no_reason_to_change_anything(
    tmp_path: Path, loop: Loop, connect: Any
) -> None:
    with training(tmp_path, loop, connect) as trainer:
        loop.run(_told(trainer.engine.stall))
        calling = asyncio.run_coroutine_threadsafe(trainer.served.chat(), loop._loop)
        loop.run(_until_called(trainer.engine))
        with pytest.raises(NotDrained, match="1 calls"), trainer.client.weights_update("v2", wait=0.1):
            raise AssertionError("the update began")
        assert trainer.client.pauses() == ()
        # The engine is to keep it, so nobody waits for it.
        with trainer.client.weights_update("v2", wait=0.1, engine="keep") as pause:
            assert (pause.in_flight, [answer.ok for answer in pause.engines]) == (1, [True])
        loop.run(_told(trainer.engine.go_on))
        assert calling.result(30).status_code == 200
        assert [call.route for call in trainer.engine.control] == ["/pause", "/resume"]


def test_an_engine_that_refuses_ends_the_update_before_it_began(tmp_path: Path, loop: Loop, connect: Any) -> None:
    with training(tmp_path, loop, connect) as trainer:
        trainer.engine.refusal = 500
        with pytest.raises(EngineRefused, match="a: "), trainer.client.weights_update("v2", engine="wait"):
            raise AssertionError("the update began")
        assert trainer.client.pauses() == ()
        assert trainer.client.weight_versions().weight_version is None


def test_an_update_that_takes_longer_than_its_pause_says_so(tmp_path: Path, loop: Loop, connect: Any) -> None:
    with training(tmp_path, loop, connect) as trainer:
        with pytest.raises(PauseExpired, match=r"0\.2 s"), trainer.client.weights_update("v2", ttl=0.2):
            loop.run(asyncio.sleep(1.0))
        # The weights are there all the same.
        assert trainer.client.weight_versions().weight_version == "v2"


def test_a_pause_without_a_block_is_resumed_by_its_id_or_backend(tmp_path: Path, loop: Loop, connect: Any) -> None:
    with training(tmp_path, loop, connect) as trainer:
        pause = trainer.client.pause(backends=["a"], max_hold=30)
        assert (pause.backends, pause.max_hold, pause.mode, pause.drained) == (("a",), 30.0, "hold", True)
        calling = asyncio.run_coroutine_threadsafe(trainer.served.chat(), loop._loop)
        loop.run(held(trainer.served, 1))
        assert [each.pause_id for each in trainer.client.pauses()] == [pause.pause_id]
        assert trainer.client.resume(pause.pause_id).released == (pause.pause_id,)
        assert trainer.client.resume(pause.pause_id).released == ()
        assert calling.result(30).status_code == 200
        trainer.client.pause(pause_id="p")
        assert trainer.client.resume(backends=["a"]).pauses[0].released == ("a",)
        assert trainer.client.resume(all=True, flush=True).released == ("p",)
        with pytest.raises(InvalidCall, match="say which"):
            trainer.client.resume()


async def _until_called(engine: Trained) -> None:
    async with asyncio.timeout(20):
        while not engine.stalled:
            await asyncio.sleep(0.01)


async def _told(what: Callable[[], None]) -> None:
    """On the engine's own loop."""
    what()
