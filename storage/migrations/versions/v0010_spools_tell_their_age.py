"""A heartbeat also tells for how long the oldest trace of its gateway's spool has waited."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("gateways", sa.Column("spool_oldest_s", sa.Float))
