from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from storage.errors import CannotOpen
from storage.opening import open_database
from storage.records import TraceQuery
from storage.spool.importing import Imported, SpoolInUse, import_spool
from storage.store import Store
from tests.storage.behind import behind
from tests.storage.conftest import on_sqlite
from tests.storage.examples import call, session
from tests.storage.test_outages import locked


def made(folder: Path) -> Path:
    folder.mkdir()
    return folder


async def left_spool(folder: Path, *, damaged: bool = False) -> Path:
    """Five traces of a gateway that ended while its database was locked, one of them in a session by itself."""
    store = Store.open(made(folder) / "a.db", gateway_id="dead")
    with locked(folder / "a.db"):
        for number in range(5):
            one = call("alone" if number == 2 else "s", [number], [2])
            store.begin(one, session(one.session_id, run_id="r"))
            await store.finish(one, timeout=0.1)
        await store.close()
    if damaged:
        damage(folder / "a.db-spool")
    return folder / "a.db-spool"


def damage(spool: Path) -> None:
    """One bit of the record of the call that ended alone."""
    (segment,) = spool.glob("*/*.spool")
    data = bytearray(segment.read_bytes())
    data[data.rindex(b"alone")] ^= 0x20
    segment.write_bytes(data)


def imported(spool: Path, place: str) -> Imported:
    database = open_database(place)
    try:
        return import_spool(spool, database)
    finally:
        database.close()


async def test_a_dead_gateways_spool_comes_in_once(tmp_path: Path, place: str) -> None:
    spool = await left_spool(tmp_path / "dead")
    (one,) = (path for path in spool.iterdir() if path.is_dir())
    shutil.copytree(one, tmp_path / "copied")
    assert await asyncio.to_thread(imported, spool, place) == Imported(imported=5)
    assert not spool.exists()
    assert await asyncio.to_thread(imported, tmp_path / "copied", place) == Imported(there_already=5)
    store = Store.open(place, gateway_id="reader")
    assert [trace.turn for trace in await store.whole_session("s")] == [0, 1, 2, 3]
    assert (await store.session("alone")) == session("alone", run_id="r")
    await store.delete_session("alone")
    await store.close()
    spool = await left_spool(tmp_path / "dead again")
    told = await asyncio.to_thread(imported, spool, place)
    assert told == Imported(imported=4, dropped=1)


@on_sqlite
async def test_what_is_damaged_is_told_and_kept_and_the_rest_comes_in(
    tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    spool = await left_spool(tmp_path / "dead", damaged=True)
    told = await asyncio.to_thread(imported, spool, place)
    assert told.refused >= 1
    assert told.imported == 4
    assert len(list((spool / "refused").iterdir())) == 1
    assert "can't be read, so the file is kept" in caplog.text


@on_sqlite
async def test_a_strangers_file_at_the_top_is_kept_and_hides_no_gateways_folder(tmp_path: Path, place: str) -> None:
    spool = await left_spool(tmp_path / "dead")
    (spool / "file.spool").write_text("precious")
    assert await asyncio.to_thread(imported, spool, place) == Imported(imported=5, refused=1)
    (kept,) = spool.rglob("*.spool")
    assert (kept.parent, kept.read_text()) == (spool / "refused", "precious")
    assert {path.name for path in spool.iterdir()} == {"refused"}


@on_sqlite
async def test_the_spool_of_a_gateway_that_lives_is_left_alone(tmp_path: Path, place: str) -> None:
    store = Store.open(tmp_path / "alive.db", gateway_id="alive")
    with pytest.raises(SpoolInUse, match="in use by a gateway that runs"):
        await asyncio.to_thread(imported, tmp_path / "alive.db-spool", place)
    await store.finish(call("s"), timeout=20)
    await store.close()


@on_sqlite
@pytest.mark.parametrize("name", ["nothing", "other"])
def test_a_folder_that_is_no_spool_is_left_as_it_is(tmp_path: Path, place: str, name: str) -> None:
    (tmp_path / "other" / "folder").mkdir(parents=True)
    with pytest.raises(CannotOpen, match=r"no spool|no folder"):
        imported(tmp_path / name, place)
    assert list((tmp_path / "other" / "folder").iterdir()) == []


@on_sqlite
async def test_what_no_database_takes_is_put_aside_and_holds_nothing_up(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "dead"
    store = Store.open(made(folder) / "a.db", gateway_id="dead")
    with locked(folder / "a.db"):
        await store.finish(call("s", [1], [2]), timeout=0.1)
        await store.finish(call("s", [1], [2], http_status=2**63), timeout=0.1)  # More than a column can have.
        await store.finish(call("s", [1, 2], [3]), timeout=0.1)
        await store.close()
    told = await asyncio.to_thread(imported, folder / "a.db-spool", place)
    assert (told.imported, told.refused) == (2, 1)
    (kept,) = (folder / "a.db-spool" / "refused").iterdir()
    reader = Store.open(place, gateway_id="reader")
    assert len((await reader.traces(TraceQuery(session_id="s"))).items) == 2
    await reader.close()
    assert await asyncio.to_thread(imported, kept.parent, place) == Imported(refused=1)
    assert list(kept.parent.iterdir()) == [kept]


@on_sqlite
async def test_what_was_refused_comes_in_in_its_order_once_it_is_taken(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "dead"
    store = Store.open(made(folder) / "a.db", gateway_id="dead")
    calls = [call("s", [number], [2]) for number in range(12)]  # Their offsets have two, three, four and five digits.
    with locked(folder / "a.db"):
        for one in calls:
            await store.finish(one, timeout=0.1)
        await store.close()
    spool = folder / "a.db-spool"
    with behind(place) as db:
        db.exec_driver_sql("CREATE TRIGGER refuse BEFORE INSERT ON traces BEGIN SELECT RAISE(ABORT, 'refused'); END")
    assert await asyncio.to_thread(imported, spool, place) == Imported(refused=12)
    with behind(place) as db:
        db.exec_driver_sql("DROP TRIGGER refuse")
    assert await asyncio.to_thread(imported, spool / "refused", place) == Imported(imported=12)
    assert not spool.exists()
    reader = Store.open(place, gateway_id="reader")
    assert [trace.trace_id for trace in await reader.whole_session("s")] == [one.trace_id for one in calls]
    await reader.close()
