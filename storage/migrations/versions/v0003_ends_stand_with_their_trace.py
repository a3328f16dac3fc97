"""Where a trace's choices end stands in its own row: one table, and one insert a call, less."""

from __future__ import annotations

from itertools import groupby
from operator import itemgetter
from struct import Struct

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_END = Struct("<II16s")
"""Index, length, digest. Written out, for what the program makes of it later is no matter of this revision."""
_NEXT = """
    SELECT session_id, trace_id, "index", end_len, digest FROM ends
    WHERE (session_id, trace_id) IN (
        SELECT DISTINCT session_id, trace_id FROM ends ORDER BY session_id, trace_id LIMIT 500
    )
    ORDER BY session_id, trace_id, "index"
"""


def upgrade() -> None:
    op.add_column("traces", sa.Column("ends", sa.LargeBinary))
    db = op.get_bind()
    traces = sa.table("traces", *map(sa.column, ("session_id", "trace_id", "ends")))
    fill = (
        sa.update(traces)
        .where(traces.c.session_id == sa.bindparam("session"), traces.c.trace_id == sa.bindparam("trace"))
        .values(ends=sa.bindparam("packed", type_=sa.LargeBinary))
    )
    # A part at a time, for there is a row for every answer that was ever recorded.
    while rows := list(db.execute(sa.text(_NEXT))):
        filled = [
            {"session": session_id, "trace": trace_id, "packed": b"".join(_END.pack(*row[2:]) for row in of_trace)}
            for (session_id, trace_id), of_trace in groupby(rows, key=itemgetter(0, 1))
        ]
        db.execute(fill, filled)
        last = {"session": rows[-1][0], "trace": rows[-1][1]}
        db.execute(sa.text("DELETE FROM ends WHERE (session_id, trace_id) <= (:session, :trace)"), last)
    op.drop_table("ends")


def downgrade() -> None:
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
            {"session_id": session_id, "trace_id": trace_id, "index": index, "end_len": end_len, "digest": digest}
            for session_id, trace_id, packed in rows
            for index, end_len, digest in _END.iter_unpack(packed)
        ],
    )
    op.drop_column("traces", "ends")
