"""Nothing in a call, nor in the environment, chooses where it goes; and a session's id is read once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.scripted import Fault, ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, gateway


async def test_no_url_in_a_request_chooses_a_backend(tmp_path: Path) -> None:
    served_by, elsewhere = ScriptedServer("vllm"), ScriptedServer("vllm")
    async with (
        running(served_by) as backend,
        running(elsewhere) as other,
        gateway(tmp_path, backend) as served,
    ):
        asked = len(served_by.calls)
        fields = ("api_base", "base_url", "url", "backend", "endpoint", "proxy", "api_url", "user_config", "model_list")
        for field in fields:
            assert (await served.chat(**{field: other})).status_code == 200
        names = ("x-backend-url", "x-upstream", "x-forwarded-host", "x-original-url", "x-rewrite-url", "forwarded")
        for name in names:
            assert (await served.chat(headers={name: other})).status_code == 200
        assert (await served.chat(headers={"host": other.removeprefix("http://")})).status_code == 200
        assert (await served.agent.post(f"{CHAT}?api_base={other}", json=HELLO)).status_code == 200
        assert (await served.chat(model=other)).status_code == 404
        assert len(served_by.calls) - asked == len(fields) + len(names) + 2
    assert elsewhere.calls == []


async def test_the_environments_proxies_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server, proxy = ScriptedServer("vllm"), ScriptedServer("vllm")
    async with running(server) as backend, running(proxy) as other:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, other)
            monkeypatch.setenv(name.lower(), other)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        assert os.environ["http_proxy"] == other
        async with gateway(tmp_path, backend) as served:
            assert (await served.chat()).status_code == 200
            assert (await served.agent.get("/v1/models")).status_code == 200
            assert (await served.agent.post("/api/admin/backends", json={"url": other, "name": "b"})).status_code == 201
    assert server.calls
    assert all("://" not in call.path for call in (*server.calls, *proxy.calls))
    assert [call.path for call in proxy.calls if call.method == "POST"] == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_backend_that_redirects_sends_nobody_anywhere(tmp_path: Path, status: int) -> None:
    server, elsewhere = ScriptedServer("vllm"), ScriptedServer("vllm")
    async with running(server) as backend, running(elsewhere) as other, gateway(tmp_path, backend) as served:
        server.faults.append(Fault(status=status, headers={"location": f"{other}{CHAT}"}, body=b""))
        answer = await served.chat()
        assert answer.status_code >= 400
        assert "location" not in answer.headers
    assert elsewhere.calls == []


async def test_a_sessions_id_is_decoded_once_and_names_no_file(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        for written, read in (("a%2Eb", "a.b"), ("a%40b", "a@b"), ("%61%3Ab", "a:b")):
            answer = await served.agent.post(f"/sessions/{written}{CHAT}", json=HELLO)
            assert (answer.status_code, answer.headers["x-session-id"]) == (200, read)
        for twice in ("a%252Eb", "%252e%252e", "%2e%2e", "a%00", "%2Fetc", "a%5Cb", ".hidden", "a%0Ab", "a%20b"):
            answer = await served.agent.post(f"/sessions/{twice}{CHAT}", json=HELLO)
            assert answer.status_code in (400, 404), twice
        before = {path.name for path in tmp_path.rglob("*")}  # noqa: ASYNC240
        assert (await served.chat(session="unmistakable")).status_code == 200
        assert not any("unmistakable" in path.name for path in tmp_path.rglob("*"))  # noqa: ASYNC240
        assert before
