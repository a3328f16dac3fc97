"""Several backends behind one gateway: who gets which call, and what becomes of sessions when backends come and go."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from adapters.scripts.replies import of_length
from gateway.scripted import Fault, ScriptedServer, free_port, running
from tests.gateway.harness import Running, gateway, traces_in, until

KNOWN = "engine=vllm,version=0.32.0"
BUSY = b'{"error": {"message": "busy"}}'


@dataclass(frozen=True, slots=True)
class Fleet:
    """Scripted backends by name, and the gateway in front of them."""

    servers: dict[str, ScriptedServer]
    served: Running

    async def backends(self) -> dict[str, dict[str, Any]]:
        listed = (await self.served.agent.get("/api/admin/backends")).json()["items"]
        return {each["name"]: each for each in listed}

    async def do(self, method: str, path: str, **fields: Any) -> dict[str, Any]:
        answer = await self.served.agent.request(method, f"/api/admin/backends{path}", json=fields or None)
        assert answer.is_success, answer.text
        told: dict[str, Any] = answer.json() if answer.content else {}
        return told

    async def call(self, session: str | None) -> str:
        """The name of the backend that answered it."""
        answer = await self.served.chat(session=session)
        assert answer.status_code == 200, answer.text
        backend: str = (await self.served.trace(answer))["backend"]
        return backend

    async def calls(self, sessions: list[str]) -> dict[str, str]:
        return dict(zip(sessions, await asyncio.gather(*map(self.call, sessions)), strict=True))


@asynccontextmanager
async def fleet(tmp_path: Path, *names: str, told: str = KNOWN, **settings: Any) -> AsyncIterator[Fleet]:
    servers = {name: ScriptedServer("vllm") for name in names}
    async with AsyncExitStack() as stack:
        urls = {name: await stack.enter_async_context(running(server)) for name, server in servers.items()}
        backends = [f"{url},name={name},{told}" for name, url in urls.items()]
        # A machine that is busy with other tests is no backend that is away.
        served = await stack.enter_async_context(gateway(tmp_path, *backends, **{"detect_timeout": 20.0} | settings))
        yield Fleet(servers, served)


def sessions(count: int, of: str = "s") -> list[str]:
    return [f"{of}-{number}" for number in range(count)]


async def test_a_backend_that_is_added_moves_no_session_and_gets_new_ones(tmp_path: Path) -> None:
    """docs/promises.md F8."""
    async with fleet(tmp_path, "a", "b") as two, running(ScriptedServer("vllm")) as third:
        before = await two.calls(sessions(30))
        await two.do("POST", "", url=third, name="c")
        assert await two.calls(sessions(30)) == before
        assert "c" in set((await two.calls(sessions(30, "new"))).values())
    assert set(before.values()) == {"a", "b"}


async def test_a_backend_that_is_removed_moves_its_own_sessions_alone(tmp_path: Path) -> None:
    """docs/promises.md F8."""
    async with fleet(tmp_path, "a", "b", "c") as three:
        before = await three.calls(sessions(30))
        await three.do("DELETE", "/b")
        after = await three.calls(sessions(30))
        await three.do("POST", "/b/undrain")
        later = await three.calls(sessions(30))
    assert {session for session in before if before[session] != after[session]} == {
        session for session in before if before[session] == "b"
    }
    assert "b" not in after.values()
    assert later == after, "they stay where they went on"


async def test_no_session_begins_at_one_that_drains_and_those_that_are_there_go_on(tmp_path: Path) -> None:
    async with fleet(tmp_path, "a", "b") as two:
        before = await two.calls(sessions(20))
        mine = [session for session in before if before[session] == "a"]
        draining = await two.do("POST", "/a/drain")
        assert (draining["state"], draining["open_sessions"], draining["drained"]) == ("draining", len(mine), False)
        assert await two.calls(sessions(20)) == before
        assert set((await two.calls(sessions(20, "new"))).values()) == {"b"}
        assert {await two.call(None) for _ in range(5)} == {"b"}
        for session in mine:
            await two.served.agent.post(f"/api/sessions/{session}/finish")
        assert (await two.do("POST", "/a/drain?wait=5"))["drained"] is True


async def test_where_every_backend_drains_new_sessions_are_told_so_and_others_go_on(tmp_path: Path) -> None:
    async with fleet(tmp_path, "a") as one:
        await one.call("s-0")
        await one.do("POST", "/a/drain")
        refused = await one.served.chat(session="new")
        assert (refused.status_code, "draining" in refused.json()["error"]["message"]) == (503, True)
        assert await one.call("s-0") == "a"
        problems = (await one.served.agent.get("/readyz")).json()["problems"]
    assert problems == ["every backend that can be reached is draining, so no session begins"]


async def test_one_that_dies_hands_its_sessions_on_and_gets_none_of_them_back(tmp_path: Path) -> None:
    port = free_port()
    b = ScriptedServer("vllm")
    async with AsyncExitStack() as stack:
        a = await stack.enter_async_context(running(ScriptedServer("vllm")))
        c = await stack.enter_async_context(running(ScriptedServer("vllm")))
        backends = (f"{a},name=a,{KNOWN}", f"http://127.0.0.1:{port},name=b,{KNOWN}", f"{c},name=c,{KNOWN}")
        served = await stack.enter_async_context(gateway(tmp_path, *backends, probe_interval=0.2))
        three = Fleet({}, served)
        async with running(b, port=port):
            await three.do("POST", "/b/probe")
            before = await three.calls(sessions(30))
        after = await three.calls(sessions(30))
        moved = {session for session in before if before[session] != after[session]}
        assert moved == {session for session in before if before[session] == "b"}
        assert {after[session] for session in moved} == {"a", "c"}
        assert (await three.backends())["b"]["health"] == "down"
        async with running(b, port=port):
            async with asyncio.timeout(10):
                while (await three.backends())["b"]["health"] != "up":
                    await asyncio.sleep(0.05)
            assert await three.calls(sessions(30)) == after
            assert "b" in (await three.calls(sessions(30, "new"))).values()


@pytest.mark.parametrize("dead", [1, 3])
async def test_while_one_lives_no_call_fails_however_many_are_dead(tmp_path: Path, dead: int) -> None:
    """docs/promises.md F6: a refused connection costs a call nothing but the next one."""
    gone = [f"http://127.0.0.1:{free_port()},name=dead-{number},{KNOWN}" for number in range(dead)]
    async with running(ScriptedServer("vllm")) as url, gateway(tmp_path, *gone, f"{url},name=well,{KNOWN}") as served:
        answers = await asyncio.gather(*(served.chat(session=f"s{at // 2}", stream=at % 3 == 0) for at in range(85)))
        assert [answer.status_code for answer in answers] == [200] * 85
        ready = await served.agent.get("/readyz")
        assert (ready.status_code, ready.json()["problems"]) == (200, [])


async def test_with_all_dead_it_is_not_ready_and_is_again_when_one_is_back_though_nobody_calls(tmp_path: Path) -> None:
    """docs/promises.md F6."""
    port = free_port()
    async with gateway(tmp_path, f"http://127.0.0.1:{port},name=a", probe_interval=0.2) as served:

        async def ready() -> list[str]:
            told: list[str] = (await served.agent.get("/readyz")).json()["problems"]
            return told

        async with asyncio.timeout(10):
            while await ready() != ["no backend can be reached"]:
                await asyncio.sleep(0.02)
            async with running(ScriptedServer("vllm"), port=port):
                while await ready():
                    await asyncio.sleep(0.05)


async def test_a_busy_backend_with_a_slow_health_is_slow_and_never_down(tmp_path: Path) -> None:
    """docs/promises.md F7: its sessions stay, those that begin go elsewhere, and its calls are all answered."""
    busy, idle = SlowHealth("vllm"), ScriptedServer("vllm")
    async with running(busy) as a, running(idle) as b:
        backends = (f"{a},name=a,{KNOWN}", f"{b},name=b,{KNOWN}")
        async with gateway(tmp_path, *backends, probe_interval=0.2, detect_timeout=0.2) as served:
            two = Fleet({}, served)
            before = await two.calls(sessions(12))
            busy.slow = True
            async with asyncio.timeout(10):
                while not (await two.backends())["a"]["slow"]:
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1.0)  # Many more probes that are not answered.
            told = (await two.backends())["a"]
            assert (told["health"], told["slow"]) == ("up", True)
            assert await two.calls(sessions(12)) == before
    assert "a" in before.values()


class SlowHealth(ScriptedServer):
    """Its calls are served as ever, and its other pages not while it is `slow`."""

    slow = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.slow and scope["type"] == "http" and scope["method"] == "GET":
            await asyncio.sleep(5.0)
        await super().__call__(scope, receive, send)


async def test_a_hanging_backend_costs_a_call_one_limit_and_then_another_serves_it(tmp_path: Path) -> None:
    async with fleet(tmp_path, "a", "b", first_byte_timeout=0.5) as two:
        before = await two.calls(sessions(8))
        two.servers["a"].fault = Fault(delay=30.0)
        after = await two.calls(sessions(8))
        assert set(after.values()) == {"b"}
        traces = [trace for trace in await _traces(two.served) if len(trace["attempts"]) > 1]
    assert {(trace["attempts"][0]["backend"], trace["status"]) for trace in traces} == {("a", "ok")}
    assert all(trace["attempts"][0]["error"].startswith("timeout: ") for trace in traces)
    assert len(traces) == list(before.values()).count("a")


async def _traces(served: Running) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await served.agent.get("/api/traces?limit=1000")).json()["items"]
    return items


@pytest.mark.parametrize("status", [429, 503])
async def test_a_session_that_begins_at_a_busy_backend_goes_to_another_and_one_that_goes_on_stays(
    tmp_path: Path, status: int
) -> None:
    async with fleet(tmp_path, "a", "b") as two:
        before = await two.calls(sessions(10))
        two.servers["a"].fault = Fault(status=status, body=BUSY, headers={"retry-after": "3"})
        assert set((await two.calls(sessions(10, "new"))).values()) == {"b"}
        for session, backend in before.items():
            answer = await two.served.chat(session=session)
            assert answer.status_code == (200 if backend == "b" else status)
        two.servers["b"].fault = Fault(status=status, body=BUSY, headers={"retry-after": "3"})
        refused = await two.served.chat(session="last")
    assert (refused.status_code, refused.headers["retry-after"]) == (status, "3")


async def test_calls_without_a_session_go_where_least_is_in_flight(tmp_path: Path) -> None:
    async with fleet(tmp_path, "a", "b", "c", "d") as four:
        for server in four.servers.values():
            server.fault = Fault(delay=0.5)
        answers = await asyncio.gather(*(four.served.chat() for _ in range(40)))
        assert {answer.status_code for answer in answers} == {200}
    assert {len(server.calls) for server in four.servers.values()} == {10}


async def test_sessions_are_shared_out_by_weight(tmp_path: Path) -> None:
    async with fleet(tmp_path, "small", "large") as two:
        await two.do("PATCH", "/large", weight=4)
        counts = Counter((await two.calls(sessions(100))).values())
    assert 60 <= counts["large"] <= 95


async def test_no_pool_stands_between_many_calls_and_their_backend(tmp_path: Path) -> None:
    """docs/promises.md F9."""
    async with fleet(tmp_path, "a") as one:
        one.servers["a"].fault = Fault(delay=2.0)
        calls = [asyncio.create_task(one.served.chat(session=f"s{number}")) for number in range(90)]
        await until(lambda: sum(call.open for call in one.servers["a"].calls) == 90)
        assert {answer.status_code for answer in await asyncio.gather(*calls)} == {200}


async def test_a_model_goes_to_who_serves_it_and_an_alias_by_its_name_there(tmp_path: Path) -> None:
    qwen, llama = ScriptedServer("vllm", model="qwen3-4b"), ScriptedServer("vllm", model="llama-3")
    async with running(qwen) as a, running(llama) as b:
        backends = (f"{a},name=a,aliases=gpt-4o=qwen3-4b", f"{b},name=b")
        async with gateway(tmp_path, *backends) as served:
            for model, backend in (("qwen3-4b", "a"), ("llama-3", "b"), ("gpt-4o", "a")):
                trace = await served.trace(await served.chat(session=f"s-{model}", model=model))
                assert (trace["backend"], trace["model"]) == (backend, model)
                assert (trace["served_model"], trace["fidelity"]) == (
                    "llama-3" if backend == "b" else "qwen3-4b",
                    "exact",
                )
            assert (await served.chat(model="gpt-5")).status_code == 404
            listed = (await served.agent.get("/v1/models")).json()["data"]
    assert qwen.calls[-1].json["model"] == "qwen3-4b"
    assert {each["id"]: each.get("root") for each in listed} == {
        "qwen3-4b": None,
        "llama-3": None,
        "gpt-4o": "qwen3-4b",
    }


@pytest.mark.parametrize(
    ("engine", "headers"),
    [
        ("vllm", {"x-session-id", "x-smg-routing-key"}),
        ("sglang", {"x-session-id", "x-smg-routing-key"}),
        ("dynamo", {"x-dynamo-session-id"}),
    ],
)
async def test_routers_behind_are_told_which_calls_belong_together_and_never_by_the_agents_own_words(
    tmp_path: Path, engine: str, headers: set[str]
) -> None:
    server = ScriptedServer(engine)
    lies = dict.fromkeys(("x-session-id", "x-smg-routing-key", "x-dynamo-session-id"), "the-agents-own")
    async with running(server) as url, gateway(tmp_path, url) as served:
        assert (await served.chat(session="s1", headers=lies)).status_code == 200
        assert (await served.chat(headers=lies)).status_code == 200
    *_, of_a_session, alone = server.calls  # Before them may be probes.
    told = {name: of_a_session.header(name) for name in lies}
    assert told == {name: "s1" if name in headers else None for name in lies}
    assert {alone.header(name) for name in lies} == {None}


async def test_who_answers_calls_is_not_probed_and_who_is_quiet_is_asked_cheaply(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", reply=of_length(2))
    async with running(server) as url, gateway(tmp_path, f"{url},name=a", probe_interval=0.4) as served:
        await served.chat(session="s")
        server.requests.clear()
        for _ in range(10):
            await served.chat(session="s")
            await asyncio.sleep(0.1)
        assert {call.route for call in server.requests} == {"/v1/chat/completions"}
        await until(lambda: [call.route for call in server.requests][-2:] == ["/health", "/health"])
    assert len(await traces_in(tmp_path / "rollouts.db")) == 11
