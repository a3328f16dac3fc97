"""What a call used up stands beside its payload, and so does the key by which it is known again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_COLUMNS = {"prompt_tokens": sa.Integer, "completion_tokens": sa.Integer, "idempotency_key": sa.String}


def upgrade() -> None:
    # Of the traces that are there it stays null: their payloads tell it, to whoever counts.
    for name, kind in _COLUMNS.items():
        op.add_column("traces", sa.Column(name, kind))


def downgrade() -> None:
    for name in _COLUMNS:
        op.drop_column("traces", name)
