"""The order in which sessions ended, how large groups are to be, claims and deliveries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.tables import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_NUMBER_THE_ENDED = """
    UPDATE sessions SET ended_seq = numbered.place
    FROM (
        SELECT session_id, row_number() OVER (ORDER BY coalesce(finished_at, created_at), session_id) AS place
        FROM sessions WHERE status <> 'open'
    ) AS numbered
    WHERE numbered.session_id = sessions.session_id
"""
_COUNT_ON = "INSERT INTO counters (name, value) SELECT 'ended_seq', coalesce(max(ended_seq), 0) FROM sessions"


def upgrade() -> None:
    op.add_column("sessions", sa.Column("group_size", sa.Integer))
    op.add_column("sessions", sa.Column("ended_seq", sa.Integer))
    op.create_table(
        "counters",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("value", sa.Integer, nullable=False),
    )
    op.execute(_NUMBER_THE_ENDED)
    op.execute(_COUNT_ON)
    op.execute("INSERT INTO counters (name, value) VALUES ('moved', 0)")
    ended = sa.text("ended_seq IS NOT NULL")
    op.create_index("ix_sessions_ended_seq", "sessions", ["ended_seq"], sqlite_where=ended, postgresql_where=ended)
    op.create_index(
        "ix_sessions_run_ended", "sessions", ["run_id", "ended_seq"], sqlite_where=ended, postgresql_where=ended
    )
    op.create_table(
        "claims",
        sa.Column("claim_id", sa.String, primary_key=True),
        sa.Column("consumer", sa.String, nullable=False),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("leased_until", UtcDateTime, nullable=False),
    )
    op.create_table(
        "deliveries",
        sa.Column("session_id", sa.String, primary_key=True),
        sa.Column("consumer", sa.String, primary_key=True),
        sa.Column("claim_id", sa.String, nullable=False),
        sa.Column("delivered_at", UtcDateTime),
    )
    op.create_index("ix_deliveries_claim_id", "deliveries", ["claim_id", "session_id"])


def downgrade() -> None:
    for table in ("deliveries", "claims", "counters"):
        op.drop_table(table)
    for index in ("ix_sessions_run_ended", "ix_sessions_ended_seq"):
        op.drop_index(index, "sessions")
    for column in ("ended_seq", "group_size"):
        op.drop_column("sessions", column)
