"""What an administrator sets of a backend: its weight, its names for models, whether it drains."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    postgres = op.get_context().dialect.name == "postgresql"
    word = sa.String(collation="C") if postgres else sa.String()
    op.add_column("backends", sa.Column("weight", sa.Float))
    op.add_column("backends", sa.Column("aliases", sa.JSON, nullable=False, server_default="{}"))
    op.add_column("backends", sa.Column("source", word, nullable=False, server_default="api"))
    op.add_column("backends", sa.Column("state", word, nullable=False, server_default="serving"))


def downgrade() -> None:
    for name in ("state", "source", "aliases", "weight"):
        op.drop_column("backends", name)
