"""Engines that are paused themselves: what each is sent, and what is told where one refuses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.scripted import running
from tests.gateway.harness import until
from tests.gateway.weights.trained import Trained, gateway, held, post


def sent(engine: Trained) -> list[tuple[str, bytes]]:
    return [(call.path, call.body) for call in engine.control]


@pytest.mark.parametrize(
    ("engine", "mode", "pause", "flush", "resume"),
    [
        (
            {"engine": "vllm", "version": "0.33.0"},
            "keep",
            ("/pause?mode=keep&clear_cache=true", b""),
            ("/reset_prefix_cache", b""),
            ("/resume", b""),
        ),
        (
            {"engine": "vllm", "version": "0.12.0"},
            "wait",
            ("/pause?wait_for_inflight_requests=true&clear_cache=true", b""),
            ("/reset_prefix_cache", b""),
            ("/resume", b""),
        ),
        (
            {"engine": "sglang", "version": "0.5.23"},
            "keep",
            ("/pause_generation", b'{"mode":"in_place"}'),
            ("/flush_cache", b""),
            ("/continue_generation", b"{}"),
        ),
    ],
    ids=["vllm", "vllm 0.12", "sglang"],
)
async def test_an_engine_is_paused_flushed_and_resumed_in_its_own_words(
    tmp_path: Path,
    engine: dict[str, Any],
    mode: str,
    pause: tuple[str, bytes],
    flush: tuple[str, bytes],
    resume: tuple[str, bytes],
) -> None:
    server = Trained(**engine, api_key="of-the-engine")
    async with (
        running(server) as backend,
        gateway(tmp_path, f"{backend},name=a,api_key_env=KEY", environ={"KEY": "of-the-engine"}) as served,
    ):
        status = await post(served, "pause", pause_id="p", engine=mode, wait=5)
        assert [(each["backend"], each["ok"], each["status"]) for each in status["engines"]] == [("a", True, 200)]
        calling = asyncio.create_task(served.chat())
        await held(served, 1)
        resumed = await post(served, "resume", pause_id="p", flush=True)
        assert [(each["action"], each["ok"]) for each in resumed["engines"]] == [("flush", True), ("resume", True)]
        assert (await calling).status_code == 200
    assert sent(server) == [pause, flush, resume]
    assert {call.header("authorization") for call in server.control} == {"Bearer of-the-engine"}


async def test_dynamos_workers_are_asked_and_not_its_frontend(tmp_path: Path) -> None:
    frontend, workers = Trained("dynamo"), [Trained("dynamo"), Trained("dynamo")]
    async with (
        running(frontend) as url,
        running(workers[0]) as one,
        running(workers[1]) as two,
        gateway(tmp_path, f"{url},name=a,control_urls={one}|{two}") as served,
    ):
        status = await post(served, "pause", pause_id="p", engine="keep")
        assert [each["url"] for each in status["engines"]] == [one, two]
        await post(served, "resume", pause_id="p")
    assert frontend.control == []
    for worker in workers:
        assert sent(worker) == [
            ("/engine/pause_generation", b'{"mode":"keep","clear_cache":true}'),
            ("/engine/resume_generation", b"{}"),
        ]


async def test_an_engine_that_refuses_to_pause_is_named_and_nothing_stays_paused(tmp_path: Path) -> None:
    good, bad = Trained(), Trained()
    bad.refusal = 500
    async with (
        running(good) as one,
        running(bad) as two,
        gateway(tmp_path, f"{one},name=good", f"{two},name=bad") as served,
    ):
        answer = await served.agent.post("/api/admin/pause", json={"engine": "wait"})
        told = answer.json()
        assert (answer.status_code, told["code"]) == (502, "engine_refused")
        assert [each["field"] for each in told["errors"]] == ["bad"]
        assert (await served.agent.get("/api/admin/pause")).json()["items"] == []
        assert (await served.chat()).status_code == 200
    assert [call.route for call in good.control] == ["/pause", "/resume"]


async def test_an_engine_without_development_mode_says_so(tmp_path: Path) -> None:
    engine = Trained()
    engine.refusal = 404
    async with running(engine) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        told = (await served.agent.post("/api/admin/pause", json={"engine": "wait"})).json()
    assert "VLLM_SERVER_DEV_MODE=1" in told["errors"][0]["message"]


async def test_an_engine_that_has_no_pause_is_asked_nothing(tmp_path: Path) -> None:
    engine = Trained("openai")
    async with running(engine) as backend, gateway(tmp_path, f"{backend},engine=openai,name=a") as served:
        told = (await served.agent.post("/api/admin/pause", json={"engine": "wait"})).json()
        assert (told["code"], "no way to pause" in told["detail"]) == ("engine_refused", True)
        # The gateway's own pause needs nothing of the engine.
        assert (await post(served, "pause", wait=1))["drained"]


async def test_nothing_goes_on_before_its_engine_does_unless_by_force(tmp_path: Path) -> None:
    engine = Trained()
    async with running(engine) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        await post(served, "pause", pause_id="p", engine="wait")
        calling = asyncio.create_task(served.chat())
        await held(served, 1)
        engine.refusal = 503
        refused = await served.agent.post("/api/admin/resume", json={"pause_id": "p"})
        assert (refused.status_code, refused.json()["code"]) == (502, "engine_refused")
        assert not calling.done()
        forced = await post(served, "resume", pause_id="p", force=True)
        assert (forced["released"], forced["engines"][0]["ok"], forced["engines"][0]["status"]) == (["p"], False, 503)
        assert (await calling).status_code == 200


async def test_an_engine_goes_on_when_the_last_pause_that_paused_it_ends(tmp_path: Path) -> None:
    engine = Trained()
    async with running(engine) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        for pause in ("one", "two"):
            await post(served, "pause", pause_id=pause, engine="wait")
        await post(served, "resume", pause_id="one")
        assert "/resume" not in [call.route for call in engine.control]
        await post(served, "resume", pause_id="two")
        assert [call.route for call in engine.control][-1] == "/resume"


async def test_an_engine_whose_trainer_died_goes_on_when_the_time_is_up(tmp_path: Path) -> None:
    engine = Trained()
    async with running(engine) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        await post(served, "pause", ttl=0.5, engine="wait")
        await until(lambda: [call.route for call in engine.control] == ["/pause", "/resume"])
        assert (await served.chat()).status_code == 200


async def test_requests_in_flight_are_kept_where_the_engine_keeps_them(tmp_path: Path) -> None:
    """Whoever freezes them does not wait for them first."""
    engine = Trained()
    async with running(engine) as backend, gateway(tmp_path, f"{backend},name=a") as served:
        engine.stall()
        calling = asyncio.create_task(served.chat())
        await until(lambda: engine.stalled)
        status = await post(served, "pause", pause_id="p", engine="keep")
        assert (status["in_flight"], [call.route for call in engine.control]) == (1, ["/pause"])
        engine.go_on()
        await post(served, "resume", pause_id="p")
        assert (await calling).status_code == 200
