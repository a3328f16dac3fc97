"""Nothing is inflated, in neither direction, so nothing can burst (docs/promises.md D16)."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from pathlib import Path

import pytest

from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.dialect_calls import ASKED, error_of
from tests.gateway.edge.wire import BODY
from tests.gateway.harness import CHAT, gateway, traces_in

MEMORY = 16 << 20
ANSWER = b'{"choices": [{"index": 0, "message": {"content": "Hi."}, "finish_reason": "stop"}]}'


def bomb() -> bytes:
    """200 KB that are 200 MB."""
    squeezing = zlib.compressobj(9, wbits=31)
    zeros = bytes(1 << 20)
    return b"".join([*(squeezing.compress(zeros) for _ in range(200)), squeezing.flush()])


async def test_a_compressed_request_is_refused_before_its_body_is_read(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        for path in ASKED:
            for coding in ("gzip", "deflate", "br", "zstd", "gzip, gzip"):
                headers = {"content-encoding": coding, "content-type": "application/json"}
                told = await served.agent.post(path, content=gzip.compress(BODY), headers=headers)
                assert told.status_code == 415
                assert "Content-Encoding" in error_of(path, told.json())[1]
    assert server.calls == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("status", [200, 400], ids=["an answer", "a refusal"])
@pytest.mark.parametrize("body", [gzip.compress(ANSWER), bomb()], ids=["small", "a bomb"])
async def test_a_backend_that_compresses_is_told_so_and_costs_no_memory(
    tmp_path: Path, body: bytes, status: int, *, stream: bool
) -> None:
    server = ScriptedServer("vllm")
    fault = Fault(body=body, status=status, headers={"content-encoding": "gzip"})
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        assert (await served.chat()).status_code == 200
        server.faults.append(fault)
        tracemalloc.start()
        try:
            told = await served.chat(stream=stream)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < MEMORY
        assert (told.status_code, "compressed" in error_of(CHAT, told.json())[1]) == (502, True)
        assert (await served.chat()).status_code == 200
    assert server.calls[-2].header("accept-encoding") == "identity"
    assert [trace.status for trace in await traces_in(tmp_path / "rollouts.db")] == ["ok", "backend_error", "ok"]


async def test_identity_by_name_is_no_compression(tmp_path: Path) -> None:
    server = ScriptedServer("vllm", fault=Fault(headers={"content-encoding": "identity"}))
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        assert (await served.chat()).status_code == 200
