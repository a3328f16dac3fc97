from __future__ import annotations

from pathlib import Path

import pytest

from storage.errors import CannotOpen
from storage.spool.folder import Owner, SpoolFolder
from storage.spool.spool import Spool


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
