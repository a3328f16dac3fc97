"""Asks a backend what it is. What the replies mean is the adapters' to say."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from adapters.detect import QUESTIONS, Configured, Question, Replies, Reply
from adapters.engines import corrected, identify, probes
from adapters.server import Server
from gateway.backend import Backend
from gateway.upstream import NothingSent, TimedOut, Upstream, UpstreamError

_REPLY_BYTES: Final = 4 * 1024 * 1024
# A probe samples one token, and an engine's first request can wait for a compile.
_PROBE_PATIENCE: Final = 10.0


class NotServing(NothingSent):
    """What is there can answer nothing at all: a proxy before a server that is gone, or a server that is dead."""

    kind = "not_serving"


class Detection:
    """`timeout` is seconds for each question; all are asked at once."""

    def __init__(self, upstream: Upstream, *, timeout: float) -> None:
        self._upstream = upstream
        self._timeout = timeout

    async def detect(self, backend: Backend) -> Server:
        """Raises UpstreamError when the backend answers none of the questions."""
        replies, failure = await self._ask(backend, QUESTIONS, self._timeout)
        if not replies and failure is not None:
            raise failure
        if replies and all(reply.status >= 500 for reply in replies.values()):
            status = max(reply.status for reply in replies.values())
            raise NotServing(backend.name, f"it answers every question with an error, such as status {status}")
        settings = backend.settings
        configured = Configured(
            engine=settings.engine,
            version=settings.version,
            variant=settings.variant,
            features=frozenset(settings.features),
            models=settings.models,
        )
        server = identify(replies, configured)
        questions = probes(server)
        if questions:
            answers, _ = await self._ask(backend, questions, self._timeout + _PROBE_PATIENCE)
            server = corrected(server, answers)
        return server

    async def _ask(
        self, backend: Backend, questions: Sequence[Question], patience: float
    ) -> tuple[Replies, UpstreamError | None]:
        """The replies that came, and the failure of one of the others."""
        tried = await asyncio.gather(*(self._reply(backend, question, patience) for question in questions))
        replies = {q.key: reply for q, reply in zip(questions, tried, strict=True) if isinstance(reply, Reply)}
        return replies, next((reply for reply in tried if isinstance(reply, UpstreamError)), None)

    async def _reply(self, backend: Backend, question: Question, patience: float) -> Reply | UpstreamError:
        headers = backend.headers()
        if question.body is not None:
            headers.append(("content-type", "application/json"))
        try:
            async with asyncio.timeout(patience):
                answer = await self._upstream.send(
                    backend.name,
                    "GET" if question.body is None else "POST",
                    backend.url_of(question.path),
                    headers=headers,
                    body=question.body or b"",
                )
                try:
                    body = await answer.body(_REPLY_BYTES)
                finally:
                    await asyncio.shield(answer.close())
        except UpstreamError as exc:
            return exc
        except TimeoutError:
            return TimedOut(backend.name, f"no answer to {question.path} within {patience:g} s")
        return Reply(answer.status, dict(answer.headers), body)
