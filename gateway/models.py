"""`GET /v1/models`: the models of all backends, each in its own server's words, each once."""

from __future__ import annotations

import asyncio

import msgspec

from gateway.backends import Backend, Backends
from gateway.refusals import NoBackendAvailable
from gateway.upstream import Upstream, UpstreamError

_LIST_BYTES = 16 * 1024 * 1024


class _Listed(msgspec.Struct):
    data: list[dict[str, msgspec.Raw]]


async def list_models(backends: Backends, upstream: Upstream, *, patience: float) -> bytes:
    """The body of an OpenAI model list. Raises NoBackendAvailable when no backend answers."""
    lists = await asyncio.gather(*(_models_of(backend, upstream, patience) for backend in backends.all()))
    if all(listed is None for listed in lists):
        raise NoBackendAvailable("No backend could be asked for its models.")
    by_id: dict[bytes, dict[str, msgspec.Raw]] = {}
    for listed in lists:
        for model in listed or ():
            by_id.setdefault(bytes(model.get("id", b"null")), model)
    return msgspec.json.encode({"object": "list", "data": list(by_id.values())})


async def _models_of(backend: Backend, upstream: Upstream, patience: float) -> list[dict[str, msgspec.Raw]] | None:
    """None where the backend did not answer with a list."""
    try:
        async with asyncio.timeout(patience):
            answer = await upstream.send(backend.name, "GET", backend.url_of("/v1/models"), headers=backend.headers())
            try:
                body = await answer.body(_LIST_BYTES)
            finally:
                await asyncio.shield(answer.close())
        return msgspec.json.decode(body, type=_Listed).data if answer.status == 200 else None
    except (TimeoutError, UpstreamError, msgspec.DecodeError):
        return None
