"""The API over a real store, called in this process, with servers that answer as a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from starlette.routing import Router

from adapters.schema import Choice, RecordedRequest, Session, Trace, Usage
from adapters.server import Server
from adapters.token_ids import TokenIds
from gateway.api.app import create_api, mounted
from gateway.api.documentation import documentation_routes
from gateway.api.parts import ApiParts, ApiStore
from gateway.backend import Backend
from gateway.backends import Backends
from gateway.exchange import Counters
from gateway.keys import Callers, KeyRing
from gateway.patience import Patience
from gateway.sessions import Sessions
from gateway.settings import BackendSettings, load
from gateway.text_encoder import TokenizerUnavailable
from gateway.upstream import NothingSent, Upstream
from gateway.weights.parts import WeightParts
from storage.store import Store
from tests.databases import make_database

STARTED = datetime(2026, 11, 20, 8, tzinfo=UTC)


@dataclass
class Detector:
    """Says of each URL what it is told to; any other can't be reached."""

    servers: dict[str, Server] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def detect(self, backend: Backend) -> Server:
        self.asked.append(backend.settings.url)
        try:
            return self.servers[backend.settings.url]
        except KeyError:
            raise NothingSent(backend.name, "connection refused") from None


@dataclass
class Tokenizers:
    """Those that there are; of any other it says that it is not there."""

    folders: set[str] = field(default_factory=set)

    async def warm(self, tokenizers: Iterable[str]) -> None:
        for folder in tokenizers:
            if folder not in self.folders:
                raise TokenizerUnavailable(
                    f"the tokenizer {folder} is no folder of this machine; nothing is downloaded"
                )

    async def decoder(self, tokenizer: str) -> Callable[[TokenIds], str]:
        """Each id as its number."""
        await self.warm([tokenizer])
        return lambda ids: " ".join(map(str, ids))


@dataclass
class Api:
    client: httpx.AsyncClient
    store: Store
    sessions: Sessions
    backends: Backends
    detector: Detector
    tokenizers: Tokenizers
    parts: ApiParts
    app: Router

    async def record(self, trace: Trace, session: Session | None = None) -> Trace:
        """A trace that is in the database, and its session."""
        self.store.begin(replace(trace, status="running"), session or Session(trace.session_id, STARTED))
        await self.store.finish(trace, timeout=10)
        return trace


@asynccontextmanager
async def api(
    tmp_path: Path,
    *,
    backends: tuple[str, ...] = (),
    environ: Mapping[str, str] | None = None,
    peer: str = "127.0.0.1",
    base_url: str = "http://127.0.0.1:9090",
    spoil: Callable[[Store], ApiStore] = lambda store: store,
    stopping: Callable[[], bool] = lambda: False,
    **settings: Any,
) -> AsyncIterator[Api]:
    told = load(environ={}, flags={"database": f"sqlite:///{tmp_path / 'rollouts.db'}", **settings})
    make_database(tmp_path / "rollouts.db")
    store = Store.open(told.database, gateway_id="gateway-1")
    detector, tokenizers = Detector(), Tokenizers()
    known = Backends([Backend(BackendSettings.parse(each)) for each in backends], detector)
    admin_key = told.admin_key.get_secret_value() if told.admin_key is not None else None
    ring = KeyRing([key.get_secret_value() for key in told.keys], admin_key)
    callers = Callers(ring, store.keys)
    await callers.refresh()
    sessions = Sessions(store, callers=callers)
    upstream = Upstream(connect_timeout=1.0)
    weights = WeightParts.of(store.weights, known, upstream, Patience(), gateway_id="gateway-1", shared=False)
    parts = ApiParts(
        store=spoil(store),
        sessions=sessions,
        callers=callers,
        keys=store.keys,
        audit=store.audit,
        backends=known,
        tokenizers=tokenizers,
        weights=weights.control,
        settings=told,
        counters=Counters(answered=3, recorded=3),
        gateway_id="gateway-1",
        environ=environ or {},
        stopping=stopping,
    )
    application = create_api(parts)
    root = Router([mounted(application), *documentation_routes(application, ["/v1/chat/completions", "/v1/models"])])
    transport = httpx.ASGITransport(root, client=(peer, 40000))
    try:
        async with upstream, weights.followed(), httpx.AsyncClient(transport=transport, base_url=base_url) as client:
            yield Api(client, store, sessions, known, detector, tokenizers, parts, root)
    finally:
        await store.close()


def trace(number: int = 0, session_id: str = "s1", **fields: Any) -> Trace:
    """A trace as a vLLM call leaves it."""
    values: dict[str, Any] = {
        "trace_id": f"01930000-0000-7000-8000-{number:012d}",
        "session_id": session_id,
        "dialect": "chat",
        "status": "ok",
        "started_at": STARTED + timedelta(seconds=number),
        "request": RecordedRequest(b'{"model": "m",\n "temperature": 1.0}', {"user-agent": "a"}),
        "model": "m",
        "backend": "gpu-1",
        "engine": "vllm",
        "plan": "streamed",
        "prompt_token_ids": TokenIds([1, 2, 3]),
        "choices": (Choice(0, token_ids=TokenIds([4, 5]), logprobs=(-0.5, None), text="Hi", finish_reason="stop"),),
        "usage": Usage(3, 2, 5),
        "fidelity": "exact",
        "logprobs_fidelity": "exact",
        "weight_version": "7",
    }
    return Trace(**{**values, **fields})
