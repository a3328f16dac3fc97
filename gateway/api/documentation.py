"""`/docs` and `/openapi.json` at the root: a page of our own, which loads nothing from anywhere else."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from threading import Lock

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from gateway.api.encoding import encode
from gateway.api.listing import JSON
from gateway.api.openapi import openapi
from gateway.routes import Page


def documentation_routes(app: FastAPI, agent_endpoints: Iterable[str]) -> list[Page]:
    """`/docs` and `/openapi.json`, and what leads there, for the root application."""
    document = _Document(app, tuple(agent_endpoints))
    page = files("gateway.api").joinpath("docs.html").read_bytes()
    headers = {
        "content-security-policy": content_security_policy(page),
        "referrer-policy": "no-referrer",
        "x-content-type-options": "nosniff",
    }

    async def to_docs(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/docs", 307)

    async def docs(request: Request) -> Response:
        return Response(page, media_type="text/html", headers=headers)

    async def document_itself(request: Request) -> Response:
        return Response(await asyncio.to_thread(document.json), media_type=JSON)

    return [
        Page("/", to_docs),
        Page("/api", to_docs),
        Page("/docs", docs),
        Page("/openapi.json", document_itself),
    ]


class _Document:
    """`/openapi.json`, made for who asks first: it takes longer than all else that a gateway does to start."""

    def __init__(self, app: FastAPI, agent_endpoints: Sequence[str]) -> None:
        self._app = app
        self._agent_endpoints = agent_endpoints
        self._lock = Lock()
        self._json: bytes | None = None

    def json(self) -> bytes:
        with self._lock:
            if self._json is None:
                self._json = encode(openapi(self._app, self._agent_endpoints))
            return self._json


def content_security_policy(page: bytes) -> str:
    """Allows the page's own script and style, by their digests, and nothing else to be run or loaded."""
    digests = {
        tag: " ".join(_digest(text) for text in re.findall(rb"<%b>(.*?)</%b>" % (tag, tag), page, re.DOTALL))
        for tag in (b"script", b"style")
    }
    return (
        f"default-src 'none'; script-src {digests[b'script']}; style-src {digests[b'style']}; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _digest(text: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
