"""A request has a time to arrive in, and who trickles one keeps nobody else from being served (docs/promises.md D5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.commands.descriptors import raise_descriptor_limit
from gateway.scripted import ScriptedServer, running
from tests.gateway.edge.wire import BODY, answer_on, answers, connected, kept, request, sent
from tests.gateway.harness import CHAT, Running, gateway, traces_in

SLOW = 2000
HEAD = request().partition(b"\r\n\r\n")[0]


async def _trickle(served: Running, head: bytes) -> bytes:
    """A few bytes of a head now and then; what comes back when the server has had enough, if it is read in time."""
    async with connected(served.url) as (reader, writer):
        reading = asyncio.create_task(reader.read(-1))
        for at in range(0, len(head), 4):
            writer.write(head[at : at + 4])
            done, _ = await asyncio.wait([reading], timeout=0.3)
            if done:
                break
        try:
            return await reading
        except ConnectionResetError:
            return b""


@pytest.mark.skipif(raise_descriptor_limit() < 3 * SLOW, reason="too few file descriptors")
async def test_good_calls_are_served_beside_thousands_that_trickle_and_those_are_ended(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, receive_timeout=3.0) as served:
        assert (await served.chat()).status_code == 200
        trickling = [asyncio.create_task(_trickle(served, HEAD)) for _ in range(SLOW)]
        await asyncio.sleep(0.5)
        answered = 0
        while answered < 20:
            assert (await served.chat(stream=bool(answered % 2))).status_code == 200
            answered += 1
            # They are served while the slow ones are there, and not only once those are gone.
            assert answered > 3 or not any(task.done() for task in trickling)
        ended = await asyncio.gather(*trickling)
    assert {told.status for answer in ended for told in answers(answer)} == {408}
    assert len(server.calls) == 21


async def test_a_body_that_trickles_is_a_408_of_the_dialect_and_recorded_as_refused(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, receive_timeout=0.3) as served:
        for path, shape in {CHAT: b'{"error":{"message":', "/v1/messages": b'{"type":"error"'}.items():
            cut = request(target=f"/sessions/a{path}")[:-20]
            [told] = answers(await sent(served.url, cut))
            assert (told.status, told.body[: len(shape)]) == (408, shape)
            assert told.headers["x-should-retry"] == "true"
    assert server.calls == []
    traces = await traces_in(tmp_path / "rollouts.db")
    assert [(trace.status, trace.http_status) for trace in traces] == [("rejected", 408)] * 2


async def test_a_body_that_does_not_begin_to_come_is_a_408_as_well(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend, receive_timeout=0.3) as served:
        head = request(target="/sessions/a/v1/messages").partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        [told] = answers(await sent(served.url, head))
        assert (told.status, told.body[:15]) == (408, b'{"type":"error"')
        assert (await served.chat()).status_code == 200
    assert len(server.calls) == 1


async def test_a_large_body_on_a_slow_line_has_more_time(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    large = request(body=BODY.replace(b"Say hello.", b"Say hello." * 30_000))
    async with (
        running(server) as backend,
        gateway(tmp_path, backend, receive_timeout=0.4) as served,
        connected(served.url) as (reader, writer),
    ):
        for at in range(0, len(large), 65_536):
            writer.write(large[at : at + 65_536])
            await asyncio.sleep(0.25)
        assert (await answer_on(reader)).status == 200


async def test_a_connection_that_says_nothing_is_closed_without_a_word(tmp_path: Path) -> None:
    async with gateway(tmp_path, receive_timeout=0.2) as served:
        assert await sent(served.url) == b""


@pytest.mark.parametrize("begun", [b"\r\n", b"POST /v1"], ids=["an empty line", "half a line"])
async def test_a_kept_connection_may_be_idle_for_longer_but_not_half_ask(tmp_path: Path, begun: bytes) -> None:
    server = ScriptedServer("vllm")
    async with (
        running(server) as backend,
        gateway(tmp_path, backend, receive_timeout=0.3) as served,
        connected(served.url) as (reader, writer),
    ):
        for _ in range(2):
            writer.write(kept(request()))
            assert (await answer_on(reader)).status == 200
            await asyncio.sleep(0.8)
        writer.write(begun)
        async with asyncio.timeout(5):
            [told] = answers(await reader.read(-1))
    assert told.status == 408


async def test_what_is_still_sent_after_a_refusal_is_not_taken_in_for_ever(tmp_path: Path) -> None:
    async with gateway(tmp_path, receive_timeout=0.5) as served, connected(served.url) as (reader, writer):
        writer.write(kept(request("Content-Length: 100000000", target="/nowhere")))
        assert (await answer_on(reader)).status == 404
        closed = asyncio.create_task(reader.read(-1))
        while not closed.done():
            writer.write(b"x")
            await asyncio.wait([closed], timeout=0.05)
        assert await closed == b""
