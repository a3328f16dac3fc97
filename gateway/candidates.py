"""The backends that a call may go to, the best first, and what its model is called there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from adapters.request import CanonicalRequest
from gateway.backend import Backend
from gateway.backends import Backends, Draining, ModelNotServed, NoBackend
from gateway.refusals import ModelNotFound, NoBackendAvailable


async def candidates_for(
    backends: Backends, session_id: str, model: str | None, pinned: str | None, *, alone: bool = False
) -> Iterator[Backend]:
    """Backends to ask for a session's call, the best first. Raises NoBackendAvailable or ModelNotFound."""
    held = backends.holding(model, pinned)
    if held is None or held.server is None:
        await backends.know_all()
    try:
        try:
            return backends.candidates(session_id, model, pinned, alone=alone)
        except ModelNotServed:
            # A model may have been loaded since the backends were last asked.
            await backends.ask_models_again()
            return backends.candidates(session_id, model, pinned, alone=alone)
    except NoBackend:
        raise NoBackendAvailable() from None
    except Draining:
        raise NoBackendAvailable("Every backend that could serve this is draining: no session begins there.") from None
    except ModelNotServed as exc:
        raise ModelNotFound(str(exc), param="model") from None


def twice_if_alone(candidates: Iterator[Backend]) -> Iterator[Backend]:
    """That the only one there is failed may have been chance."""
    count = 0
    for backend in candidates:
        count += 1
        yield backend
    if count == 1:
        yield backend


def named_there(request: CanonicalRequest, backend: Backend) -> CanonicalRequest:
    """The request with its model called as it is at the backend."""
    name = backend.name_of(request.model)
    if name == request.model:
        return request
    fields = {**request.fields, "model": msgspec.Raw(msgspec.json.encode(name))}
    return replace(request, model=name, fields=fields)
