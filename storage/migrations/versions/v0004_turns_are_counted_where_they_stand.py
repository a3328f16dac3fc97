"""A session's next turn is one more than its traces have, and no number to keep in step with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_COUNT = """
    UPDATE sessions
    SET next_turn = (SELECT coalesce(max(turn) + 1, 0) FROM traces WHERE traces.session_id = sessions.session_id)
"""


def upgrade() -> None:
    op.drop_column("sessions", "next_turn")


def downgrade() -> None:
    op.add_column("sessions", sa.Column("next_turn", sa.Integer, nullable=False, server_default="0"))
    op.execute(_COUNT)
