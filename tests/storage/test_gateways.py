from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from sqlalchemy import insert, select

from adapters.schema import Trace
from storage import codec, gateways
from storage.opening import open_database
from storage.records import GatewayHeard
from storage.tables import gateways as gateway_rows
from storage.tables import traces
from tests.storage.examples import NOON, call


def row(trace: Trace) -> dict[str, object]:
    return codec.columns(trace) | {"turn": 0, "depth": 0, "text": b""}


def test_only_the_calls_of_silent_gateways_are_interrupted(place: str) -> None:
    database = open_database(place)
    with database.write_connection() as db, db.begin():
        gateways.beat(database, db, GatewayHeard("silent", NOON - timedelta(seconds=31), 0))
        gateways.beat(database, db, GatewayHeard("alive", NOON - timedelta(seconds=60), 3))
        gateways.beat(database, db, GatewayHeard("alive", NOON - timedelta(seconds=29), 4))
        for trace_id, gateway_id, status in (
            ("1", "silent", "running"),
            ("2", "alive", "running"),
            ("3", "unknown", "running"),
            ("4", None, "running"),
            ("5", "silent", "ok"),
        ):
            db.execute(insert(traces), row(call("s", trace_id=trace_id, gateway_id=gateway_id, status=status)))
        assert gateways.interrupt_silent(db, NOON) == 3
        statuses = db.execute(select(traces.c.trace_id, traces.c.status).order_by(traces.c.trace_id)).all()
        spools = db.execute(select(gateway_rows.c.gateway_id, gateway_rows.c.spool_depth)).all()
    assert [status for _, status in statuses] == ["interrupted", "running", "interrupted", "interrupted", "ok"]
    assert sorted(map(tuple, spools)) == [("alive", 4), ("silent", 0)]
    database.close()


def test_a_heartbeat_tells_how_much_waits_in_a_spool_and_for_how_long(place: str) -> None:
    database = open_database(place)
    with database.write_connection() as db, db.begin():
        for depth, oldest_s in ((3, 61.5), (0, None)):
            gateways.live(database, "one", depth, oldest_s, db)
            (heard,) = gateways.heard(db, database)
            assert (heard.gateway_id, heard.spool_depth, heard.spool_oldest_s) == ("one", depth, oldest_s)
    database.close()


def test_who_starts_alone_interrupts_all_and_keeps_the_spools_that_are_not_drained(tmp_path: Path) -> None:
    database = open_database(tmp_path / "a.db")
    with database.write_connection() as db, db.begin():
        gateways.beat(database, db, GatewayHeard("drained", NOON, 0))
        gateways.beat(database, db, GatewayHeard("spooling", NOON, 2))
        db.execute(insert(traces), row(call("s", gateway_id="drained", status="running")))
        gateways.start(database, db)
    with database.read() as db:
        assert db.scalar(select(traces.c.status)) == "interrupted"
        assert db.scalars(select(gateway_rows.c.gateway_id)).all() == ["spooling"]
    database.close()
