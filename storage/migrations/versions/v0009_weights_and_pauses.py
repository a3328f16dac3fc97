"""Which weights each backend has, every change of them, the pauses in which they change, and who heeds these."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgres = op.get_context().dialect.name == "postgresql"
    text = sa.String(collation="C") if postgres else sa.String()
    instant = sa.DateTime(timezone=True)
    op.create_table(
        "pauses",
        sa.Column("pause_id", text, primary_key=True),
        sa.Column("owner", text),
        sa.Column("backends", sa.JSON),
        sa.Column("mode", text, nullable=False),
        sa.Column("move", sa.Boolean, nullable=False),
        sa.Column("max_hold", sa.Float),
        sa.Column("max_held", sa.Integer, nullable=False),
        sa.Column("engine", text),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("expires_at", instant, nullable=False),
        sa.Column("released", sa.JSON, nullable=False),
    )
    op.create_table(
        "gates",
        sa.Column("gateway_id", text, primary_key=True),
        sa.Column("told_at", instant, nullable=False),
        sa.Column("pauses", sa.JSON, nullable=False),
        sa.Column("in_flight", sa.JSON, nullable=False),
        sa.Column("held", sa.JSON, nullable=False),
    )
    op.create_table(
        "weights",
        sa.Column("backend", text, primary_key=True),
        sa.Column("weight_version", text, nullable=False),
        sa.Column("source", text, nullable=False),
        sa.Column("changed_at", instant, nullable=False),
    )
    op.create_table(
        "weight_events",
        sa.Column("event_id", text, primary_key=True),
        sa.Column("at", instant, nullable=False),
        sa.Column("backend", text, nullable=False),
        sa.Column("weight_version", text, nullable=False),
        sa.Column("previous", text),
        sa.Column("source", text, nullable=False),
        sa.Column("gateway_id", text),
    )
    op.create_index("ix_weight_events_at", "weight_events", ["at", "event_id"])
    op.add_column("backends", sa.Column("control_urls", sa.JSON, nullable=False, server_default="[]"))


def downgrade() -> None:
    op.drop_column("backends", "control_urls")
    for table in ("weight_events", "weights", "gates", "pauses"):
        op.drop_table(table)
