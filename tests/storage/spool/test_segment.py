from __future__ import annotations

from pathlib import Path

import pytest

from storage.spool.frames import HEADER_SIZE
from storage.spool.segment import Segment


def test_nothing_is_durable_in_a_file_that_was_removed(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / "000001.spool", 4096)
    segment.append(segment.framed(b"body"))
    segment.path.unlink()
    with pytest.raises(FileNotFoundError):
        segment.sync(to_disk=True)
    assert segment.durable == HEADER_SIZE
    segment.close()
