"""Where a trace's choices end stands in its own row: one table, and one insert a call, less."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_BATCH = 1000
_ALL = 'SELECT session_id, trace_id, "index", end_len, digest FROM ends ORDER BY session_id, trace_id, "index"'


def upgrade() -> None:
    from storage.parents import End, pack

    op.add_column("traces", sa.Column("ends", sa.LargeBinary))
    db = op.get_bind()
    traces = sa.table("traces", *map(sa.column, ("session_id", "trace_id", "ends")))
    fill = (
        sa.update(traces)
        .where(traces.c.session_id == sa.bindparam("session"), traces.c.trace_id == sa.bindparam("trace"))
        .values(ends=sa.bindparam("packed", type_=sa.LargeBinary))
    )
    filled = [
        {"session": session_id, "trace": trace_id, "packed": pack(End(trace_id, *row[2:]) for row in rows)}
        for (session_id, trace_id), rows in groupby(db.execute(sa.text(_ALL)), key=itemgetter(0, 1))
    ]
    for start in range(0, len(filled), _BATCH):
        db.execute(fill, filled[start : start + _BATCH])
    op.drop_table("ends")


def downgrade() -> None:
    from storage.parents import unpack

    ends = op.create_table(
        "ends",
        sa.Column("session_id", sa.String, primary_key=True),
        sa.Column("trace_id", sa.String, primary_key=True),
        sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("end_len", sa.Integer, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
    )
    rows = op.get_bind().execute(sa.text("SELECT session_id, trace_id, ends FROM traces WHERE ends IS NOT NULL")).all()
    op.bulk_insert(
        ends,
        [
            {"session_id": session_id, "trace_id": trace_id, "index": e.index, "end_len": e.end_len, "digest": e.digest}
            for session_id, trace_id, packed in rows
            for e in unpack(trace_id, packed)
        ],
    )
    op.drop_column("traces", "ends")
