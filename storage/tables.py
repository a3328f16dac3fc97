"""The tables. Every key begins with `session_id`, so that a sharding PostgreSQL can distribute by it.

No unique index lacks `session_id` for the same reason, and no foreign key crosses tables that are written in one batch.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    JSON,
    BigInteger,
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
    Table,
    TypeDecorator,
    text,
)

from storage.texts import Text, Word

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
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Words(TypeDecorator[tuple[str, ...]]):
    """A short list of strings that is never searched for one of them."""

    impl = JSON
    cache_ok = True

    def process_result_value(self, value: list[str] | None, dialect: Dialect) -> tuple[str, ...] | None:
        return None if value is None else tuple(value)


# SQLite's integers are of any size as it is.
_Count: Final = Integer().with_variant(BigInteger, "postgresql")
# Of ended sessions alone, so that a session's making pays nothing for these indexes.
_ENDED: Final = text("ended_seq IS NOT NULL")

sessions: Final = Table(
    "sessions",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("run_id", Text),
    Column("group_id", Text),
    Column("group_size", Integer),
    Column("status", Word, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime),
    Column("capture", Word),
    Column("purpose", Word),
    Column("attempt", Integer, nullable=False),
    Column("backend", Text),
    Column("implicit", Boolean, nullable=False),
    # Its place among all that have ended, null while it is open. A second end keeps it.
    Column("ended_seq", _Count),
    # Whose memory of its traces is true: the writer's that wrote the last of them. Null where there is but one.
    Column("written_by", Text),
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
    Column("name", Text, primary_key=True),
    Column("value", _Count, nullable=False),
)

tombstones: Final = Table(
    "tombstones",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("deleted_at", UtcDateTime, nullable=False),
)

traces: Final = Table(
    "traces",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("trace_id", Text, primary_key=True),
    Column("turn", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("parent_trace_id", Text),
    Column("parent_index", Integer),
    Column("retry_of", Text),
    Column("dialect", Word, nullable=False),
    Column("model", Text),
    Column("served_model", Text),
    Column("status", Word, nullable=False),
    Column("http_status", Integer),
    Column("purpose", Word, nullable=False),
    Column("backend", Text),
    Column("engine", Text),
    Column("engine_version", Text),
    Column("plan", Word),
    Column("weight_version", Text),
    Column("usage_estimated", Boolean, nullable=False),
    Column("fidelity", Word, nullable=False),
    Column("fidelity_reason", Text),
    Column("source", Text),
    Column("logprobs_fidelity", Word, nullable=False),
    Column("logprobs_reason", Text),
    Column("logprobs_mode", Word),
    Column("started_at", UtcDateTime, nullable=False),
    Column("first_token_ms", Float),
    Column("duration_ms", Float),
    Column("request_id", Text),
    Column("gateway_id", Text),
    Column("schema_version", Integer, nullable=False),
    # What budgets are counted by: of calls that have ended.
    Column("prompt_tokens", Integer),
    Column("completion_tokens", Integer),
    # By which a call that its client sends again is known.
    Column("idempotency_key", Text),
    # The trace that `ids` and `text` are stored against, and how many bases deep this one stands.
    Column("base_trace_id", Text),
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
    Column("claim_id", Text, primary_key=True),
    Column("consumer", Text, nullable=False),
    Column("unit", Word, nullable=False),
    Column("status", Word, nullable=False),
    Column("leased_until", UtcDateTime, nullable=False),
)

deliveries: Final = Table(
    "deliveries",
    metadata,
    Column("session_id", Text, primary_key=True),
    Column("consumer", Text, primary_key=True),
    # The claim that has it or had it last, and whose lease counts until it is delivered.
    Column("claim_id", Text, nullable=False),
    Column("delivered_at", UtcDateTime),
    Index("ix_deliveries_claim_id", "claim_id", "session_id"),
)

gateways: Final = Table(
    "gateways",
    metadata,
    Column("gateway_id", Text, primary_key=True),
    Column("heartbeat_at", UtcDateTime, nullable=False),
    Column("spool_depth", Integer, nullable=False),
    Column("spool_oldest_s", Float),
)

backends: Final = Table(
    "backends",
    metadata,
    Column("name", Text, primary_key=True),
    Column("url", Text, nullable=False),
    Column("engine", Text),
    Column("version", Text),
    Column("variant", Word),
    Column("features", Words, nullable=False),
    Column("models", Words, nullable=False),
    Column("tokenizer", Text),
    # The name of the environment variable that has the key; never the key.
    Column("api_key_env", Text),
    Column("weight", Float),
    Column("aliases", JSON, nullable=False),
    Column("source", Word, nullable=False),
    Column("state", Word, nullable=False),
    Column("control_urls", Words, nullable=False),
)

keys: Final = Table(
    "keys",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("key_hash", LargeBinary, nullable=False),
    Column("name", Text, nullable=False),
    Column("note", Text),
    Column("scopes", Words, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("created_by", Text),
    Column("expires_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("revoked_by", Text),
    Column("last_used_at", UtcDateTime),
    Column("max_calls", Integer),
    Column("calls_per_minute", Integer),
    Column("tokens_per_minute", Integer),
)

audit: Final = Table(
    "audit",
    metadata,
    # Rises with time.
    Column("audit_id", Text, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("by", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text),
    Column("outcome", Word, nullable=False),
    Column("status", Integer),
    Column("request_id", Text),
    Column("gateway_id", Text),
    Index("ix_audit_at", "at"),
)

pauses: Final = Table(
    "pauses",
    metadata,
    Column("pause_id", Text, primary_key=True),
    Column("owner", Text),
    # Null: all of them.
    Column("backends", Words),
    Column("mode", Word, nullable=False),
    Column("move", Boolean, nullable=False),
    Column("max_hold", Float),
    Column("max_held", Integer, nullable=False),
    Column("engine", Word),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Column("released", Words, nullable=False),
)

gates: Final = Table(
    "gates",
    metadata,
    Column("gateway_id", Text, primary_key=True),
    Column("told_at", UtcDateTime, nullable=False),
    Column("pauses", Words, nullable=False),
    Column("in_flight", JSON, nullable=False),
    Column("held", JSON, nullable=False),
)

weights: Final = Table(
    "weights",
    metadata,
    Column("backend", Text, primary_key=True),
    Column("weight_version", Text, nullable=False),
    Column("source", Word, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
)

weight_events: Final = Table(
    "weight_events",
    metadata,
    Column("event_id", Text, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("backend", Text, nullable=False),
    Column("weight_version", Text, nullable=False),
    Column("previous", Text),
    Column("source", Word, nullable=False),
    Column("gateway_id", Text),
    Index("ix_weight_events_at", "at", "event_id"),
)
