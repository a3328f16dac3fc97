"""`GET /v1/models`: the models of all backends, each in its own server's words, each once; and by their aliases."""

from __future__ import annotations

import asyncio

import msgspec

from adapters.errors import read_error
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.refusals import NoBackendAvailable
from gateway.upstream import Upstream, UpstreamError

_LIST_BYTES = 16 * 1024 * 1024
_PATH = "/v1/models"

Listed = list[dict[str, msgspec.Raw]]


class NotListed(Exception):
    """A server does not say which models it serves; the message goes on from its name: «refuses the key …»."""


class KeyRefused(NotListed):
    """It wants a key, or another."""


class _List(msgspec.Struct):
    data: Listed


async def list_models(backends: Backends, upstream: Upstream, *, patience: float) -> bytes:
    """The body of an OpenAI model list. Raises NoBackendAvailable when no backend answers."""
    asked = backends.present()
    if not asked:
        raise NoBackendAvailable()
    told = await asyncio.gather(*(_told(backend, upstream, patience) for backend in asked))
    lists = [each for each in told if not isinstance(each, NotListed)]
    if not lists:
        why = "; ".join(f"`{backend.name}` {each}" for backend, each in zip(asked, told, strict=True))
        raise NoBackendAvailable(f"No backend could be asked for its models: {why}.")
    by_id: dict[bytes, dict[str, msgspec.Raw]] = {}
    for listed in lists:
        for model in listed:
            by_id.setdefault(bytes(model.get("id", b"null")), model)
    for backend in asked:
        for alias, served in backend.settings.aliases.items():
            known = by_id.get(msgspec.json.encode(served))
            if known is not None:
                # `root` is where servers say which model one of another name is.
                named = {"id": alias, "root": served}
                told_as = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in named.items()}
                by_id.setdefault(bytes(told_as["id"]), {**known, **told_as})
    return msgspec.json.encode({"object": "list", "data": list(by_id.values())})


async def models_of(backend: Backend, upstream: Upstream, *, patience: float) -> Listed:
    """What one server lists. Raises NotListed."""
    try:
        async with asyncio.timeout(patience):
            answer = await upstream.send(backend.name, "GET", backend.url_of(_PATH), headers=backend.headers())
            try:
                body = await answer.body(_LIST_BYTES)
            finally:
                await asyncio.shield(answer.close())
    except TimeoutError as exc:
        raise NotListed(f"gave no answer to {_PATH} within {patience:g} s") from exc
    except UpstreamError as exc:
        raise NotListed(f"can't be asked: {exc.why}") from exc
    if answer.status in (401, 403):
        how = "refuses the key that it is given" if backend.headers() else "wants a key (api_key_env=)"
        raise KeyRefused(f"{how}: {answer.status}, {read_error(answer.status, body).message}")
    try:
        if answer.status == 200:
            return msgspec.json.decode(body, type=_List).data
    except msgspec.DecodeError as exc:
        raise NotListed(f"answers, but not as an inference server does: no list at {_PATH}") from exc
    if answer.status in (429, 500, 502, 503, 504):
        raise NotListed(f"answers with status {answer.status}: {read_error(answer.status, body).message}")
    raise NotListed(f"answers, but not as an inference server does: status {answer.status} at {_PATH}")


async def _told(backend: Backend, upstream: Upstream, patience: float) -> Listed | NotListed:
    try:
        return await models_of(backend, upstream, patience=patience)
    except NotListed as exc:
        return exc
