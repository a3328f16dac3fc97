from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from storage.errors import CannotOpen
from storage.spool.folder import Owner, SpoolFolder, adopted, room
from storage.spool.segment import Segment

OWNER = Owner("gateway-1", "../a.db")


def left(root: Path, owner: Owner = OWNER) -> Path:
    """The sub-folder of a process that died with something in it."""
    folder = SpoolFolder.create(root, owner)
    Segment.create(folder.new_path(), 4096).close()
    folder.close()
    return folder.path


def test_nobody_but_its_owner_may_look_in(tmp_path: Path) -> None:
    path = left(tmp_path / "spool")
    folders, files = (tmp_path / "spool", path), list(path.iterdir())
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700, 0o700]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]


def test_what_a_living_process_has_is_not_taken_in(tmp_path: Path) -> None:
    living = SpoolFolder.create(tmp_path, OWNER)
    dead = left(tmp_path)
    (found,) = adopted(tmp_path, OWNER.database, takes_unowned=True)
    assert (found.path, found.owner) == (dead, OWNER)
    assert list(adopted(tmp_path, OWNER.database, takes_unowned=True)) == []
    found.close()
    living.close()


def test_what_was_kept_for_another_database_stays_and_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = left(tmp_path, Owner("gateway-1", "postgresql://db/other"))
    with caplog.at_level(logging.WARNING):
        assert list(adopted(tmp_path, OWNER.database, takes_unowned=True)) == []
    assert path.is_dir()
    assert f"{path} has what was kept for postgresql://db/other" in caplog.text
    assert f"db import-spool {path} --database URL" in caplog.text


def test_what_does_not_say_whose_it_is_is_taken_in_only_where_one_database_alone_can_have_left_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = left(tmp_path)
    (path / "lock").write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        assert list(adopted(tmp_path, OWNER.database, takes_unowned=False)) == []
    assert f"{path} has what was kept for a database that it does not name" in caplog.text
    (found,) = adopted(tmp_path, OWNER.database, takes_unowned=True)
    assert found.path == path
    found.close()


def test_files_are_in_the_order_of_their_numbers_in_whatever_version_they_were_named(tmp_path: Path) -> None:
    gateway = "0192f0aa-1111-7222-8333-444444444444"
    names = [
        f"{gateway}-000001-32.spool",
        f"{gateway}-000001-000000000650.spool",
        f"refused-{gateway}-000001-1280-32.spool",
        f"refused-refused-{gateway}-000001-10240-32-32.spool",
        f"{gateway}-000002.spool",
        f"{gateway}-000010-32.spool",
        f"{gateway}-000010-000000000033.spool",
    ]
    for name in reversed(names):
        (tmp_path / name).touch()
    folder = SpoolFolder.adopt(tmp_path)
    assert folder is not None
    assert [path.name for path in folder.files()] == names
    folder.close()


def test_what_was_refused_is_no_gateways(tmp_path: Path) -> None:
    left(tmp_path).rename(tmp_path / "refused")
    assert list(adopted(tmp_path, OWNER.database, takes_unowned=True)) == []


def test_a_folder_with_nothing_in_it_goes_with_its_process(tmp_path: Path) -> None:
    SpoolFolder.create(tmp_path / "spool", OWNER).close()
    assert not (tmp_path / "spool").exists()


def test_a_folder_that_can_not_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "nowhere" / "spool", Path("/proc/spool")):
        with pytest.raises(CannotOpen, match=r"the spool folder .* can't be written: .*--spool"):
            SpoolFolder.create(place, OWNER)


def test_a_file_takes_no_more_than_an_eighth_of_a_small_disk(tmp_path: Path) -> None:
    whole = os.statvfs(tmp_path).f_frsize * os.statvfs(tmp_path).f_blocks
    assert room(tmp_path, whole) == whole // 8
    assert room(tmp_path, 1000) == 1000
