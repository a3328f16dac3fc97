"""An agent: the OpenAI SDK, with every byte that it was sent kept beside what it made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import httpx2
import openai

from tests.engines.cases import Endpoint
from tests.engines.folding import Document, Folded, fold


@dataclass(frozen=True, slots=True)
class Seen:
    """One answer: as bytes, as JSON (one document, or a stream's chunks), and as the SDK's own objects."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    documents: tuple[Document, ...]
    parsed: tuple[Document, ...]
    error: str | None = None
    """The SDK's words, where it raised."""

    @property
    def folded(self) -> Folded:
        return fold(self.parsed)

    @property
    def done(self) -> bool:
        return self.body.rstrip().endswith(b"data: [DONE]")


class Agent:
    """Asks one server. `base_url` is what an agent would be given, its `/v1` included."""

    def __init__(self, base_url: str, *, api_key: str = "unused", timeout: float = 180.0) -> None:
        self._kept = _KeepingTransport()
        self._http = httpx2.Client(transport=self._kept, timeout=timeout, trust_env=False)
        self._sdk = openai.OpenAI(base_url=base_url, api_key=api_key, http_client=self._http, max_retries=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sdk.close()

    def ask(self, endpoint: Endpoint, body: Mapping[str, Any]) -> Seen:
        """Whatever the answer is; an error status, or one that the SDK can't read, is an answer too."""
        create = self._sdk.chat.completions.create if endpoint == "chat" else self._sdk.completions.create
        fields = {name: value for name, value in body.items() if name not in _SDK_FIELDS}
        named = {name: value for name, value in body.items() if name in _SDK_FIELDS}
        parsed: list[Document] = []
        error: str | None = None
        try:
            answer = create(**named, extra_body=fields)
            pieces: Iterable[Any] = answer if body.get("stream") else (answer,)
            parsed.extend(piece.model_dump(exclude_unset=True, warnings=False) for piece in pieces)
        except openai.OpenAIError as exc:
            error = str(exc)
        kept = self._kept.last
        return Seen(kept.status, kept.headers, kept.body, tuple(documents_of(kept.body)), tuple(parsed), error)


# What goes by the SDK's own arguments, as an agent would write it; the rest is `extra_body`.
_SDK_FIELDS = frozenset(
    ("model", "messages", "prompt", "max_tokens", "temperature", "n", "stop", "stream", "stream_options", "tools")
) | {"logprobs", "top_logprobs"}


def documents_of(body: bytes) -> Iterator[Document]:
    """The JSON of a whole answer, or of each `data:` line of a stream. Nothing where it is neither."""
    if body.lstrip().startswith(b"{"):
        yield json.loads(body)
        return
    for line in body.replace(b"\r\n", b"\n").split(b"\n"):
        data = line.removeprefix(b"data:").strip()
        if line.startswith(b"data:") and data != b"[DONE]":
            yield json.loads(data)


@dataclass(slots=True)
class _Kept:
    status: int
    headers: Mapping[str, str]
    parts: list[bytes] = field(default_factory=list)

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)


class _KeepingTransport(httpx2.BaseTransport):
    """The SDK's own transport, which keeps the last answer's bytes as they pass."""

    def __init__(self) -> None:
        self._inner = httpx2.HTTPTransport()
        self.last = _Kept(0, {})

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._inner.handle_request(request)
        self.last = _Kept(response.status_code, dict(response.headers))
        assert isinstance(response.stream, httpx2.SyncByteStream)
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_KeepingStream(response.stream, self.last.parts),
            extensions=response.extensions,
        )

    def close(self) -> None:
        self._inner.close()


class _KeepingStream(httpx2.SyncByteStream):
    def __init__(self, inner: httpx2.SyncByteStream, parts: list[bytes]) -> None:
        self._inner = inner
        self._parts = parts

    def __iter__(self) -> Iterator[bytes]:
        for part in self._inner:
            self._parts.append(part)
            yield part

    def close(self) -> None:
        self._inner.close()
