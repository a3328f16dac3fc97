"""What the API's handlers work with: made by the application, given to each handler by FastAPI."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Protocol

from fastapi import Depends, Request

from adapters.schema import Session, Trace
from adapters.token_ids import TokenIds
from gateway.backends import Backends
from gateway.exchange import Counters
from gateway.keys import Callers
from gateway.patience import Patience
from gateway.sessions import Sessions
from gateway.settings import Settings
from gateway.sight.sight import Sight
from gateway.weights.control import Control
from storage.audit import Audit
from storage.backends import Backends as StoredBackends
from storage.claims import Claims
from storage.keys import Keys
from storage.records import (
    EndedQuery,
    GatewayHeard,
    Group,
    GroupQuery,
    Page,
    StoreCounts,
    TraceQuery,
)
from storage.upkeep import Upkeep


class ApiStore(Protocol):
    """What the API needs of the store beside sessions."""

    async def traces(self, query: TraceQuery) -> Page[Trace]: ...
    async def traces_end(self, query: TraceQuery) -> str | None: ...
    async def trace(self, trace_id: str, session_id: str | None = None) -> Trace | None: ...
    async def session_id_of(self, trace_id: str) -> str | None: ...
    async def whole_session(self, session_id: str) -> tuple[Trace, ...]: ...
    async def ended_sessions(self, query: EndedQuery) -> Page[Session]: ...
    async def groups(self, query: GroupQuery) -> Page[Group]: ...
    async def gateways(self) -> tuple[GatewayHeard, ...]: ...
    @property
    def upkeep(self) -> Upkeep: ...
    @property
    def claims(self) -> Claims: ...
    @property
    def backends(self) -> StoredBackends: ...
    async def complete(self) -> bool: ...
    def counts(self) -> StoreCounts: ...


class Tokenizers(Protocol):
    """What the API needs of the tokenizers that backends' settings name."""

    async def warm(self, tokenizers: Iterable[str]) -> None:
        """Raises TokenizerUnavailable."""
        ...

    async def decoder(self, tokenizer: str) -> Callable[[TokenIds], str]:
        """What makes text of ids; it blocks. Raises TokenizerUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class ApiParts:
    """Everything that the API is given. It owns none of it: the root application opens and closes."""

    store: ApiStore
    sessions: Sessions
    callers: Callers
    keys: Keys
    audit: Audit
    backends: Backends
    tokenizers: Tokenizers
    weights: Control
    settings: Settings
    counters: Counters
    gateway_id: str
    patience: Patience = field(default_factory=Patience)
    sight: Sight = field(default_factory=Sight)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Where the keys of backends that an administrator adds stand, by their `api_key_env`."""
    stopping: Callable[[], bool] = lambda: False
    """Whether the gateway is about to stop, so that nobody goes on waiting for news."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    started: float = field(default_factory=time.monotonic)

    async def complete(self) -> bool:
        """Whether every call that was answered can be read: the `complete` of a list."""
        return await self.store.complete()


async def parts_of(request: Request) -> ApiParts:
    # Async, for FastAPI runs a plain function in a thread.
    parts = request.app.state.parts
    assert isinstance(parts, ApiParts)
    return parts


Parts = Annotated[ApiParts, Depends(parts_of)]
