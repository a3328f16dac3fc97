"""`/docs` and `/openapi.json` at the root."""

from __future__ import annotations

import re
from pathlib import Path

from gateway.api.documentation import content_security_policy
from tests.gateway.api.harness import api


async def test_the_document_tells_of_both_planes_as_they_are(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        document = (await served.client.get("/openapi.json")).json()
    paths = document["paths"]
    assert {path: sorted(item) for path, item in paths.items() if path.startswith("/api")} == {
        "/api/sessions": ["get", "post"],
        "/api/sessions/{session_id}": ["delete", "get", "patch"],
        "/api/sessions/{session_id}/agents": ["get"],
        "/api/sessions/{session_id}/finish": ["post"],
        "/api/sessions/{session_id}/traces": ["get"],
        "/api/sessions/{session_id}/drift": ["get"],
        "/api/drift": ["get"],
        "/api/sessions/{session_id}/samples": ["get"],
        "/api/samples": ["get"],
        "/api/export": ["get"],
        "/api/traces": ["get"],
        "/api/traces/{trace_id}": ["get"],
        "/api/sessions/{session_id}/rewards": ["get", "post"],
        "/api/traces/{trace_id}/rewards": ["post"],
        "/api/groups": ["get"],
        "/api/claims": ["post"],
        "/api/claims/{claim_id}": ["get"],
        "/api/claims/{claim_id}/ack": ["post"],
        "/api/claims/{claim_id}/extend": ["post"],
        "/api/claims/{claim_id}/release": ["post"],
        "/api/admin/audit": ["delete", "get"],
        "/api/admin/backends": ["get", "post"],
        "/api/admin/backends/{name}": ["delete", "patch"],
        "/api/admin/backends/{name}/drain": ["post"],
        "/api/admin/backends/{name}/undrain": ["post"],
        "/api/admin/backends/{name}/probe": ["post"],
        "/api/admin/keys": ["get", "post"],
        "/api/admin/keys/{key_id}": ["delete", "get", "patch"],
        "/api/admin/pause": ["get", "post"],
        "/api/admin/prune": ["post"],
        "/api/admin/resume": ["post"],
        "/api/admin/status": ["get"],
        "/api/admin/storage": ["get"],
        "/api/admin/weight-events": ["get"],
        "/api/admin/weight-version": ["get", "post", "put"],
    }
    for prefix in ("", "/sessions/{session_id}"):
        assert list(paths[f"{prefix}/v1/chat/completions"]) == ["post"]
        assert list(paths[f"{prefix}/v1/models"]) == ["get"]
    schemas = document["components"]["schemas"]
    ids = schemas["Choice"]["properties"]["token_ids"]
    assert ids == {"anyOf": [{"items": {"type": "integer"}, "type": "array"}, {"type": "null"}]}
    assert "type" not in schemas["RecordedRequest"]["properties"]["body"]
    assert schemas["NewSession"]["additionalProperties"] is False
    created = paths["/api/sessions"]["post"]["responses"]
    assert created.keys() == {"201", "default"}
    assert list(created["default"]["content"]) == ["application/problem+json"]


async def test_every_reference_in_the_document_stands(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        answer = await served.client.get("/openapi.json")
    schemas = answer.json()["components"]["schemas"]
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', answer.text))
    assert references <= schemas.keys()
    assert schemas.keys() - references == set()


async def test_the_page_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        root = await served.client.get("/")
        assert (root.status_code, root.headers["location"]) == (307, "/docs")
        page = await served.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "http" not in re.sub(r"http-equiv", "", page.text)
    assert "innerHTML" not in page.text
    policy = page.headers["content-security-policy"]
    assert policy == content_security_policy(page.content)
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")


async def test_the_pages_need_no_key(tmp_path: Path) -> None:
    async with api(tmp_path, admin_key="admin") as served:
        for path in ("/docs", "/openapi.json"):
            assert (await served.client.get(path)).status_code == 200
