from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from storage.spool.frames import HEADER_SIZE, Frame
from storage.spool.segment import Segment

_WRITES_UNTIL_IT_IS_KILLED = """
import sys
from pathlib import Path
from storage.spool.segment import Segment

segment = Segment.create(Path(sys.argv[1]), 48 << 20)
segment.append(segment.framed(b"first"))
large = segment.framed(bytes(range(1, 256)) * (40 << 12))
print("writes", flush=True)
segment.append(large)
sys.stdin.read()
"""


def test_nothing_is_durable_in_a_file_that_was_removed(tmp_path: Path) -> None:
    segment = Segment.create(tmp_path / "000001.spool", 4096)
    segment.append(segment.framed(b"body"))
    segment.path.unlink()
    with pytest.raises(FileNotFoundError):
        segment.sync(to_disk=True)
    assert segment.durable == HEADER_SIZE
    segment.close()


@pytest.mark.parametrize("number", range(5))
def test_what_a_kill_leaves_of_a_record_is_not_taken_for_damage(tmp_path: Path, number: int) -> None:
    path = tmp_path / "000001.spool"
    command = [sys.executable, "-c", _WRITES_UNTIL_IT_IS_KILLED, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"writes\n"
        child.kill()
    segment = Segment.open(path)
    assert segment is not None
    found = [each for each in segment.read(HEADER_SIZE) if isinstance(each, Frame)]
    segment.cut(found[-1].end)
    assert found[0].body == b"first"
    assert segment.durable == found[-1].end
    segment.close()
