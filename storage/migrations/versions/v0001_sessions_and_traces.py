"""Sessions, traces, ends, gateways, backends."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.tables import UtcDateTime, Words

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sessions",
        sa.Column("session_id", sa.String, primary_key=True),
        sa.Column("run_id", sa.String),
        sa.Column("group_id", sa.String),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("finished_at", UtcDateTime),
        sa.Column("capture", sa.String),
        sa.Column("purpose", sa.String),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("backend", sa.String),
        sa.Column("implicit", sa.Boolean, nullable=False),
        sa.Column("next_turn", sa.Integer, nullable=False),
        sa.Column("key_hash", sa.LargeBinary),
        sa.Column("details", sa.LargeBinary, nullable=False),
    )
    op.create_index("ix_sessions_created_at", "sessions", ["created_at", "session_id"])
    op.create_index("ix_sessions_run_id", "sessions", ["run_id", "group_id"])
    op.create_index("ix_sessions_group_id", "sessions", ["group_id"])
    op.create_index("ix_sessions_key_hash", "sessions", ["key_hash"])
    op.create_table(
        "tombstones",
        sa.Column("session_id", sa.String, primary_key=True),
        sa.Column("deleted_at", UtcDateTime, nullable=False),
    )
    op.create_table(
        "traces",
        sa.Column("session_id", sa.String, primary_key=True),
        sa.Column("trace_id", sa.String, primary_key=True),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("parent_trace_id", sa.String),
        sa.Column("parent_index", sa.Integer),
        sa.Column("retry_of", sa.String),
        sa.Column("dialect", sa.String, nullable=False),
        sa.Column("model", sa.String),
        sa.Column("served_model", sa.String),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("http_status", sa.Integer),
        sa.Column("purpose", sa.String, nullable=False),
        sa.Column("backend", sa.String),
        sa.Column("engine", sa.String),
        sa.Column("engine_version", sa.String),
        sa.Column("plan", sa.String),
        sa.Column("weight_version", sa.String),
        sa.Column("usage_estimated", sa.Boolean, nullable=False),
        sa.Column("fidelity", sa.String, nullable=False),
        sa.Column("fidelity_reason", sa.String),
        sa.Column("source", sa.String),
        sa.Column("logprobs_fidelity", sa.String, nullable=False),
        sa.Column("logprobs_reason", sa.String),
        sa.Column("logprobs_mode", sa.String),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("first_token_ms", sa.Float),
        sa.Column("duration_ms", sa.Float),
        sa.Column("request_id", sa.String),
        sa.Column("gateway_id", sa.String),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("base_trace_id", sa.String),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary),
        sa.Column("text", sa.LargeBinary, nullable=False),
        sa.Column("ids", sa.LargeBinary),
        sa.Column("logprobs", sa.LargeBinary),
        sa.Column("experts", sa.LargeBinary),
    )
    op.create_index("ix_traces_turn", "traces", ["session_id", "turn", "trace_id"])
    op.create_index("ix_traces_trace_id", "traces", ["trace_id", "session_id"])
    running = sa.text("status = 'running'")
    op.create_index("ix_traces_running", "traces", ["gateway_id"], sqlite_where=running, postgresql_where=running)
    op.create_table(
        "ends",
        sa.Column("session_id", sa.String, primary_key=True),
        sa.Column("trace_id", sa.String, primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("end_len", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "gateways",
        sa.Column("gateway_id", sa.String, primary_key=True),
        sa.Column("heartbeat_at", UtcDateTime, nullable=False),
        sa.Column("spool_depth", sa.Integer, nullable=False),
    )
    op.create_table(
        "backends",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("url", sa.String, nullable=False),
        sa.Column("engine", sa.String),
        sa.Column("version", sa.String),
        sa.Column("variant", sa.String),
        sa.Column("features", Words, nullable=False),
        sa.Column("models", Words, nullable=False),
        sa.Column("tokenizer", sa.String),
        sa.Column("api_key_env", sa.String),
    )


def downgrade() -> None:
    for table in ("backends", "gateways", "ends", "traces", "tombstones", "sessions"):
        op.drop_table(table)
