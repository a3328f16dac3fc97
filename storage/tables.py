"""The tables. Every key begins with `session_id`, so that a sharding PostgreSQL can distribute by it.

No unique index lacks `session_id` for the same reason, and no foreign key crosses tables that are written in one batch.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    DateTime,
    Dialect,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    String,
    Table,
    TypeDecorator,
    text,
)

metadata: Final = MetaData()

AnyRow: TypeAlias = Row[*tuple[Any, ...]]
"""A row whose columns the reader knows by name."""


class UtcDateTime(TypeDecorator[datetime]):
    """An instant: written as UTC, read as UTC. SQLite keeps no zone, and compares such text in order of time."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


class Words(TypeDecorator[tuple[str, ...]]):
    """A short list of strings that is never searched for one of them."""

    impl = JSON
    cache_ok = True

    def process_result_value(self, value: list[str] | None, dialect: Dialect) -> tuple[str, ...] | None:
        return None if value is None else tuple(value)


# Of ended sessions alone, so that a session's making pays nothing for these indexes.
_ENDED: Final = text("ended_seq IS NOT NULL")

sessions: Final = Table(
    "sessions",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("run_id", String),
    Column("group_id", String),
    Column("group_size", Integer),
    Column("status", String, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("capture", String),
    Column("purpose", String),
    Column("attempt", Integer, nullable=False),
    Column("backend", String),
    Column("implicit", Boolean, nullable=False),
    # Its place among all that have ended, null while it is open. A second end keeps it.
    Column("ended_seq", Integer),
    Column("key_hash", LargeBinary),
    # JSON: metadata, rewards, sampling, budgets.
    Column("details", LargeBinary, nullable=False),
    Index("ix_sessions_created_at", "created_at", "session_id"),
    Index("ix_sessions_run_id", "run_id", "group_id"),
    Index("ix_sessions_group_id", "group_id"),
    Index("ix_sessions_key_hash", "key_hash"),
    Index("ix_sessions_ended_seq", "ended_seq", sqlite_where=_ENDED, postgresql_where=_ENDED),
    Index("ix_sessions_run_ended", "run_id", "ended_seq", sqlite_where=_ENDED, postgresql_where=_ENDED),
)

counters: Final = Table(
    "counters",
    metadata,
    Column("name", String, primary_key=True),
    Column("value", Integer, nullable=False),
)

tombstones: Final = Table(
    "tombstones",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("deleted_at", UtcDateTime, nullable=False),
)

traces: Final = Table(
    "traces",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("trace_id", String, primary_key=True),
    Column("turn", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("parent_trace_id", String),
    Column("parent_index", Integer),
    Column("retry_of", String),
    Column("dialect", String, nullable=False),
    Column("model", String),
    Column("served_model", String),
    Column("status", String, nullable=False),
    Column("http_status", Integer),
    Column("purpose", String, nullable=False),
    Column("backend", String),
    Column("engine", String),
    Column("engine_version", String),
    Column("plan", String),
    Column("weight_version", String),
    Column("usage_estimated", Boolean, nullable=False),
    Column("fidelity", String, nullable=False),
    Column("fidelity_reason", String),
    Column("source", String),
    Column("logprobs_fidelity", String, nullable=False),
    Column("logprobs_reason", String),
    Column("logprobs_mode", String),
    Column("started_at", UtcDateTime, nullable=False),
    Column("first_token_ms", Float),
    Column("duration_ms", Float),
    Column("request_id", String),
    Column("gateway_id", String),
    Column("schema_version", Integer, nullable=False),
    # What budgets are counted by: of calls that have ended.
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    # By which a call that its client sends again is known.
    Column("idempotency_key", String),
    # The trace that `ids` and `text` are stored against, and how many bases deep this one stands.
    Column("base_trace_id", String),
    Column("depth", Integer, nullable=False),
    # Of the payload below; null until the call has ended.
    Column("digest", LargeBinary),
    # Last, so that a scan that reads only the columns above never touches their overflow pages.
    Column("text", LargeBinary, nullable=False),
    Column("ids", LargeBinary),
    Column("logprobs", LargeBinary),
    Column("experts", LargeBinary),
    # Where each choice ends, for the prompts that go on from it; null where none may.
    Column("ends", LargeBinary),
    Index("ix_traces_turn", "session_id", "turn", "trace_id"),
    Index("ix_traces_trace_id", "trace_id", "session_id"),
)
Index(
    "ix_traces_running",
    traces.c.gateway_id,
    sqlite_where=traces.c.status == "running",
    postgresql_where=traces.c.status == "running",
)

claims: Final = Table(
    "claims",
    metadata,
    Column("claim_id", String, primary_key=True),
    Column("consumer", String, nullable=False),
    Column("unit", String, nullable=False),
    Column("status", String, nullable=False),
    Column("leased_until", UtcDateTime, nullable=False),
)

deliveries: Final = Table(
    "deliveries",
    metadata,
    Column("session_id", String, primary_key=True),
    Column("consumer", String, primary_key=True),
    # The claim that has it or had it last, and whose lease counts until it is delivered.
    Column("claim_id", String, nullable=False),
    Column("delivered_at", UtcDateTime),
    Index("ix_deliveries_claim_id", "claim_id", "session_id"),
)

gateways: Final = Table(
    "gateways",
    metadata,
    Column("gateway_id", String, primary_key=True),
    Column("heartbeat_at", UtcDateTime, nullable=False),
    Column("spool_depth", Integer, nullable=False),
)

backends: Final = Table(
    "backends",
    metadata,
    Column("name", String, primary_key=True),
    Column("url", String, nullable=False),
    Column("engine", String),
    Column("version", String),
    Column("variant", String),
    Column("features", Words, nullable=False),
    Column("models", Words, nullable=False),
    Column("tokenizer", String),
    # The name of the environment variable that has the key; never the key.
    Column("api_key_env", String),
)
