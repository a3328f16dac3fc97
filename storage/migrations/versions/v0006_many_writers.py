"""Several gateways on one database: who wrote to a session last; and what PostgreSQL has to be told of our columns.

Text is compared there by its bytes, as SQLite compares it and as cursors count on, whatever the server's language is;
what is compressed already is not compressed again; and counts may outgrow 32 bits.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_TEXTS = """
    SELECT table_name, column_name FROM information_schema.columns
    WHERE table_schema = current_schema() AND data_type = 'character varying' AND table_name = ANY(:tables)
    ORDER BY table_name, ordinal_position
"""
_TABLES = ["backends", "claims", "counters", "deliveries", "gateways", "sessions", "tombstones", "traces"]
_COMPRESSED = ("text", "ids", "logprobs", "experts")
_COUNTS = (("sessions", "ended_seq"), ("counters", "value"))


def upgrade() -> None:
    op.add_column("sessions", sa.Column("written_by", sa.String))
    if op.get_context().dialect.name == "postgresql":
        _alter(text='TYPE VARCHAR COLLATE "C"', compressed="SET STORAGE EXTERNAL", counts="TYPE BIGINT")


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        _alter(text='TYPE VARCHAR COLLATE "default"', compressed="SET STORAGE EXTENDED", counts="TYPE INTEGER")
    op.drop_column("sessions", "written_by")


def _alter(*, text: str, compressed: str, counts: str) -> None:
    columns = op.get_bind().execute(sa.text(_TEXTS), {"tables": _TABLES}).all()
    by_table: dict[str, list[str]] = {}
    for table, column in columns:
        by_table.setdefault(table, []).append(f'ALTER COLUMN "{column}" {text}')
    for table, column in _COUNTS:
        by_table[table].append(f'ALTER COLUMN "{column}" {counts}')
    by_table["traces"] += [f'ALTER COLUMN "{column}" {compressed}' for column in _COMPRESSED]
    # All of a table at once, so that it is written anew once at most.
    for table, changes in by_table.items():
        op.execute(f'ALTER TABLE "{table}" {", ".join(changes)}')
