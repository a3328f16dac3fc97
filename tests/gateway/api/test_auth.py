"""Who may use `/api`."""

from __future__ import annotations

from pathlib import Path

from tests.gateway.api.harness import Api, api

EVERYTHING = (
    ("GET", "/api/sessions"),
    ("POST", "/api/sessions"),
    ("GET", "/api/sessions/s1"),
    ("PATCH", "/api/sessions/s1"),
    ("POST", "/api/sessions/s1/finish"),
    ("DELETE", "/api/sessions/s1"),
    ("GET", "/api/sessions/s1/traces"),
    ("GET", "/api/traces"),
    ("GET", "/api/traces/t1"),
    ("GET", "/api/admin/backends"),
    ("POST", "/api/admin/backends"),
    ("DELETE", "/api/admin/backends/a"),
    ("POST", "/api/admin/backends/a/probe"),
    ("GET", "/api/admin/status"),
    ("GET", "/api/nothing"),
    ("PUT", "/api/sessions"),
)


async def statuses(served: Api, headers: dict[str, str]) -> set[int]:
    return {(await served.client.request(method, path, headers=headers)).status_code for method, path in EVERYTHING}


async def session_key(served: Api, headers: dict[str, str] | None = None) -> str:
    made = await served.client.post("/api/sessions", json={"session_id": "s1"}, headers=headers)
    key = made.json()["key"]
    assert isinstance(key, str)
    return key


async def test_with_an_admin_key_everything_needs_it_wherever_one_asks_from(tmp_path: Path) -> None:
    async with api(tmp_path, admin_key="admin", host="0.0.0.0", keys=("agents",), peer="10.0.0.9") as served:  # noqa: S104
        for headers in ({}, {"x-api-key": "wrong"}, {"authorization": "Bearer admi"}, {"x-api-key": "rgs-made-up"}):
            assert await statuses(served, headers) == {401}
        answer = await served.client.get("/api/sessions")
        assert answer.headers["www-authenticate"] == "Bearer"
        for headers in ({"x-api-key": "admin"}, {"authorization": "bearer admin"}):
            assert not await statuses(served, headers) & {401, 403}


async def test_an_agents_key_and_a_sessions_own_open_nothing(tmp_path: Path) -> None:
    async with api(tmp_path, admin_key="admin", keys=("agents",)) as served:
        key = await session_key(served, {"x-api-key": "admin"})
        assert await statuses(served, {"x-api-key": key}) == {403}
        assert await statuses(served, {"authorization": f"Bearer {key}"}) == {403}
        assert await statuses(served, {"x-api-key": "agents"}) == {403}


async def test_a_sessions_own_key_opens_nothing_on_an_open_gateway_either(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        key = await session_key(served)
        assert await statuses(served, {"x-api-key": key}) == {403}


async def test_keys_for_agents_without_one_for_administration_close_the_api(tmp_path: Path) -> None:
    async with api(tmp_path, keys=("agents",)) as served:
        assert await statuses(served, {}) == {403}
        answer = await served.client.get("/api/sessions")
        assert "ROLLOUT_GATEWAY_ADMIN_KEY" in answer.json()["detail"]


async def test_without_keys_the_api_is_open_to_this_machine_alone(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for host in ("127.0.0.1:9090", "localhost:9090", "[::1]:9090", "localhost", "LOCALHOST"):
            assert (await served.client.get("/api/sessions", headers={"host": host})).status_code == 200
        for headers in (
            {"host": "gateway.example"},
            {"host": "127.0.0.1.evil.example:9090"},
            {"host": "evil@127.0.0.1.example"},
            {"host": ""},
            {"host": "[::1"},
            {"x-forwarded-for": "203.0.113.9"},
            {"forwarded": "for=203.0.113.9"},
        ):
            answer = await served.client.get("/api/sessions", headers=headers)
            assert answer.status_code == 403, headers
    for peer in ("10.0.0.9", "fe80::1"):
        async with api(tmp_path, peer=peer) as served:
            assert await statuses(served, {}) == {403}


async def test_another_sites_page_may_not_ask(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        own = await served.client.get("/api/sessions", headers={"origin": "http://127.0.0.1:9090"})
        assert own.status_code == 200
        for origin in ("https://evil.example", "http://localhost:3000", "null", "https://127.0.0.1:9090"):
            answer = await served.client.post("/api/sessions", json={}, headers={"origin": origin})
            assert answer.status_code == 403
        form = await served.client.post(
            "/api/sessions", content=b'{"session_id": "s"}', headers={"content-type": "text/plain"}
        )
        assert form.status_code == 415
        assert (await served.client.get("/api/sessions")).json()["items"] == []
