"""Keys that are made for callers, and a log of what administrators did."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgres = op.get_context().dialect.name == "postgresql"
    text = sa.String(collation="C") if postgres else sa.String()
    instant = sa.DateTime(timezone=True)
    op.create_table(
        "keys",
        sa.Column("key_id", text, primary_key=True),
        sa.Column("key_hash", sa.LargeBinary, nullable=False),
        sa.Column("name", text, nullable=False),
        sa.Column("note", text),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("created_by", text),
        sa.Column("expires_at", instant),
        sa.Column("revoked_at", instant),
        sa.Column("revoked_by", text),
        sa.Column("last_used_at", instant),
        sa.Column("max_calls", sa.Integer),
        sa.Column("calls_per_minute", sa.Integer),
        sa.Column("tokens_per_minute", sa.Integer),
    )
    op.create_table(
        "audit",
        sa.Column("audit_id", text, primary_key=True),
        sa.Column("at", instant, nullable=False),
        sa.Column("by", text, nullable=False),
        sa.Column("action", text, nullable=False),
        sa.Column("target", text),
        sa.Column("outcome", text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("request_id", text),
        sa.Column("gateway_id", text),
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.execute("INSERT INTO counters (name, value) VALUES ('keys', 0)")


def downgrade() -> None:
    op.drop_table("audit")
    op.drop_table("keys")
    op.execute("DELETE FROM counters WHERE name = 'keys'")
