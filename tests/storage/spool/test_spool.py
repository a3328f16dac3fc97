from __future__ import annotations

from pathlib import Path

import pytest

from storage.errors import CannotOpen
from storage.records import TraceQuery
from storage.spool.folder import Owner, SpoolFolder
from storage.spool.spool import Spool
from storage.store import Store
from tests.storage.examples import call
from tests.storage.test_outages import drained, locked


def test_a_start_that_meets_what_it_can_not_read_names_it_and_leaves_no_folder_of_its_own(tmp_path: Path) -> None:
    owner = Owner("gateway-1", "../a.db")
    dead = SpoolFolder.create(tmp_path, owner)
    odd = dead.new_path()
    odd.mkdir()
    dead.close()
    with pytest.raises(CannotOpen, match=f"{odd} can't be read: Is a directory"):
        Spool.open(
            tmp_path,
            owner,
            takes_unowned=True,
            durability="process",
            on_spooled=lambda job, refusal: None,
            on_readable=lambda: None,
        )
    assert list(tmp_path.iterdir()) == [dead.path]


def emptied_lock(folder: Path) -> Path:
    (lock,) = folder.glob("*/*/lock")
    lock.write_bytes(b"")
    return lock


@pytest.mark.parametrize(("shared", "comes_in"), [(False, True), (True, False)])
async def test_what_does_not_say_whose_it_is_comes_in_from_a_files_own_folder_alone(
    tmp_path: Path, shared: bool, comes_in: bool
) -> None:
    spool = tmp_path / "shared" if shared else None
    store = Store.open(tmp_path / "a.db", gateway_id="dead", spool=spool)
    with locked(tmp_path / "a.db"):
        await store.finish(call("s", [1], [2]), timeout=0.1)
        await store.close()
    lock = emptied_lock(tmp_path)
    store = Store.open(tmp_path / "a.db", gateway_id="next", spool=spool)
    await drained(store)
    assert bool((await store.traces(TraceQuery())).items) is comes_in
    assert lock.exists() is not comes_in
    await store.close()
