"""How long a call's prompt is: counted by its backend, by the configured tokenizer, or estimated; and by which."""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from typing import Final, Literal

from adapters.detect import Question, Reply
from adapters.engines import adapter_for
from adapters.request import CanonicalRequest
from adapters.schema import Session
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.candidates import candidates_for, named_there
from gateway.retokenizer import Retokenizer
from gateway.upstream import Upstream, UpstreamError

logger = logging.getLogger(__name__)

_REPLY_BYTES: Final = 64 * 1024 * 1024  # Some send the ids along.
_PICTURE: Final = re.compile(rb'"data:[^"]*"')
_BYTES_PER_TOKEN: Final = 4  # Of English and of code, in most vocabularies.


@dataclass(frozen=True, slots=True)
class Count:
    tokens: int
    by: Literal["backend", "tokenizer", "estimate"]


class TokenCounter:
    """`patience` is seconds for a backend's count."""

    def __init__(self, backends: Backends, upstream: Upstream, retokenizer: Retokenizer, *, patience: float) -> None:
        self._backends = backends
        self._upstream = upstream
        self._retokenizer = retokenizer
        self._patience = patience

    async def count(self, request: CanonicalRequest, session: Session) -> Count:
        """Raises NoBackendAvailable or ModelNotFound."""
        backend = next(await candidates_for(self._backends, session.session_id, request.model, session.backend))
        tokens = await self._by_backend(backend, request)
        if tokens is not None:
            return Count(tokens, "backend")
        if backend.settings.tokenizer is not None:
            tokens = await self._retokenizer.prompt_tokens(backend.settings.tokenizer, request)
            if tokens is not None:
                return Count(tokens, "tokenizer")
        return Count(estimate(request), "estimate")

    async def _by_backend(self, backend: Backend, request: CanonicalRequest) -> int | None:
        try:
            adapter = adapter_for((await self._backends.server(backend)).engine)
            question = adapter.counting(named_there(request, backend))
            if question is None:
                return None
            async with asyncio.timeout(self._patience):
                return adapter.counted(await self._reply(backend, question))
        except (UpstreamError, TimeoutError) as exc:
            logger.warning("backend %s could not count a prompt: %s", backend.name, exc or "no answer in time")
            return None

    async def _reply(self, backend: Backend, question: Question) -> Reply:
        headers = [("content-type", "application/json"), *backend.headers()]
        answer = await self._upstream.send(
            backend.name, "POST", backend.url_of(question.path), headers=headers, body=question.body or b""
        )
        try:
            return Reply(answer.status, answer.headers, await answer.body(_REPLY_BYTES))
        finally:
            await asyncio.shield(answer.close())


def estimate(request: CanonicalRequest) -> int:
    """A rough count by the bytes of what is rendered; of pictures nobody but the model's server knows the length."""
    rendered = (request.fields[name] for name in ("messages", "tools") if name in request.fields)
    size = sum(len(_PICTURE.sub(b"", bytes(raw))) for raw in rendered)
    return -(-size // _BYTES_PER_TOKEN)
