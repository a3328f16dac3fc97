"""An export as it is run, broken off and run again, over a gateway's answers."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import fsspec
import pytest

from gateway.commands.exporting.progress_file import OtherExport
from gateway.commands.remote import BrokenOff, CannotRead
from tests.gateway.commands.exporting.gateway import Ended, FakeGateway, at


def files(folder: Path) -> dict[str, str]:
    """Every file but the progress, by its path."""
    found = {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}
    found.pop("_export.json", None)
    return found


def test_files_are_parted_by_run_and_day_and_a_part_has_so_many_sessions(tmp_path: Path) -> None:
    gateway = FakeGateway(
        [
            Ended("a", at(20), "r1"),
            Ended("b", at(20, 23), "r1"),
            Ended("c", at(21, 0), "r1"),
            Ended("d", at(20), None),
            Ended("e", at(20), "r1"),
            Ended("f", at(20), "r1", status="failed"),
        ]
    )
    gateway.export(str(tmp_path / "out"))
    assert files(tmp_path / "out") == {
        "run=r1/day=2026-11-20/part-00000.jsonl": "a\nb\n",
        "run=r1/day=2026-11-20/part-00001.jsonl": "e\n",
        "run=r1/day=2026-11-21/part-00000.jsonl": "c\n",
        "run=__HIVE_DEFAULT_PARTITION__/day=2026-11-20/part-00000.jsonl": "d\n",
    }
    assert gateway.shown.getvalue() == f"4 new parts, 10 bytes, in {tmp_path / 'out'}\n"


def test_a_second_export_adds_what_has_come_since_and_touches_nothing_else(tmp_path: Path) -> None:
    gateway = FakeGateway([Ended("a", at(20), "r1")])
    gateway.export(str(tmp_path))
    written = (tmp_path / "run=r1/day=2026-11-20/part-00000.jsonl").stat().st_mtime_ns
    gateway.sessions += [Ended("b", at(20), "r1"), Ended("c", at(20), "r2")]
    gateway.export(str(tmp_path))
    gateway.export(str(tmp_path))
    assert files(tmp_path) == {
        "run=r1/day=2026-11-20/part-00000.jsonl": "a\n",
        "run=r1/day=2026-11-20/part-00001.jsonl": "b\n",
        "run=r2/day=2026-11-20/part-00000.jsonl": "c\n",
    }
    assert (tmp_path / "run=r1/day=2026-11-20/part-00000.jsonl").stat().st_mtime_ns == written
    assert gateway.shown.getvalue().splitlines()[-1].startswith("0 new parts")


def test_a_part_that_breaks_off_is_asked_for_again_with_the_cursor_that_it_had(tmp_path: Path) -> None:
    gateway = FakeGateway([Ended(name, at(20), "r1") for name in "abcd"], breaks=[1, 2])
    gateway.export(str(tmp_path))
    assert [asked.get("cursor") for asked in gateway.asked] == [None, "2", "2", "2", "4"]
    assert gateway.slept == [0.5, 2.0]
    assert files(tmp_path) == {
        "run=r1/day=2026-11-20/part-00000.jsonl": "a\nb\n",
        "run=r1/day=2026-11-20/part-00001.jsonl": "c\nd\n",
    }


def test_an_export_that_is_given_up_has_no_half_file_and_goes_on_when_it_is_run_again(tmp_path: Path) -> None:
    gateway = FakeGateway([Ended(name, at(20), "r1") for name in "abcd"], breaks=list(range(1, 6)))
    with pytest.raises(BrokenOff, match="the answer of gateway broke off"):
        gateway.export(str(tmp_path))
    assert files(tmp_path) == {"run=r1/day=2026-11-20/part-00000.jsonl": "a\nb\n"}
    gateway.export(str(tmp_path))
    assert files(tmp_path) == {
        "run=r1/day=2026-11-20/part-00000.jsonl": "a\nb\n",
        "run=r1/day=2026-11-20/part-00001.jsonl": "c\nd\n",
    }


def test_a_part_that_was_written_and_not_counted_is_written_anew_under_its_name(tmp_path: Path) -> None:
    """As after a crash between the two."""
    gateway = FakeGateway([Ended(name, at(20), "r1") for name in "abc"])
    gateway.export(str(tmp_path))
    state = tmp_path / "_export.json"
    told = json.loads(state.read_text())
    told["partitions"]["run=r1/day=2026-11-20"] = {"parts": 1, "cursor": "2"}
    state.write_text(json.dumps(told))
    gateway.sessions.append(Ended("d", at(20), "r1"))
    gateway.export(str(tmp_path))
    assert files(tmp_path) == {
        "run=r1/day=2026-11-20/part-00000.jsonl": "a\nb\n",
        "run=r1/day=2026-11-20/part-00001.jsonl": "c\nd\n",
    }


def test_a_folder_is_one_exports(tmp_path: Path) -> None:
    gateway = FakeGateway([Ended("a", at(20), "r1")])
    gateway.export(str(tmp_path))
    with pytest.raises(OtherExport, match=r"asked for otherwise \(run_id, style\): choose another folder"):
        gateway.export(str(tmp_path), run_id="r1", style="traces")
    (tmp_path / "_export.json").unlink()
    with pytest.raises(OtherExport, match=r"parts of an export that has no _export\.json"):
        gateway.export(str(tmp_path))
    (tmp_path / "_export.json").write_text("[]")
    with pytest.raises(OtherExport, match="is not an export's"):
        gateway.export(str(tmp_path))


def test_what_the_gateway_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    gateway = FakeGateway([Ended("a", at(20), "r1")], refusal="Rows in the shape verl are had as JSON lines.")
    with pytest.raises(CannotRead, match="Rows in the shape verl are had as JSON lines"):
        gateway.export(str(tmp_path), shape="verl")
    assert list(tmp_path.iterdir()) == []


def test_bounds_of_time_cut_the_days_that_they_are_in(tmp_path: Path) -> None:
    gateway = FakeGateway([Ended("a", at(19), "r1"), Ended("b", at(20, 7), "r1"), Ended("c", at(20, 9), "r1")])
    gateway.export(str(tmp_path), since=datetime(2026, 11, 20, 8, tzinfo=UTC))
    assert files(tmp_path) == {"run=r1/day=2026-11-20/part-00000.jsonl": "c\n"}
    assert gateway.asked[0]["since"] == "2026-11-20T08:00:00+00:00"
    assert gateway.asked[0]["until"] == "2026-11-21T00:00:00+00:00"


def test_traces_are_looked_for_on_each_day_of_their_session(tmp_path: Path) -> None:
    gateway = FakeGateway([Ended("a", at(22), "r1", status="failed")])
    gateway.export(str(tmp_path), of="traces")
    days = [(asked["since"][:10], asked["until"][:10]) for asked in gateway.asked]
    assert days == [("2026-11-20", "2026-11-21"), ("2026-11-21", "2026-11-22"), ("2026-11-22", "2026-11-23")]
    assert {asked["of"] for asked in gateway.asked} == {"traces"}


def test_any_file_system_of_fsspec_is_a_destination() -> None:
    memory = fsspec.filesystem("memory")
    gateway = FakeGateway([Ended(name, at(20), "r1") for name in "abc"], breaks=[1])
    gateway.export("memory://bucket/folder")
    gateway.sessions.append(Ended("d", at(20), "r1"))
    gateway.export("memory://bucket/folder")
    try:
        folder = "/bucket/folder/run=r1/day=2026-11-20"
        assert {path: memory.cat_file(path) for path in memory.find("/bucket/folder") if "part" in path} == {
            f"{folder}/part-00000.jsonl": b"a\nb\n",
            f"{folder}/part-00001.jsonl": b"c\n",
            f"{folder}/part-00002.jsonl": b"d\n",
        }
    finally:
        memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize("of", ["samples", "traces"])
def test_a_bar_is_drawn_on_a_terminal_alone(tmp_path: Path, of: str) -> None:
    for terminal in (True, False):
        gateway = FakeGateway([Ended(name, at(20), "[r1]") for name in "abc"], terminal=terminal)
        gateway.export(str(tmp_path / str(terminal)), of=of)
        assert ("run=%5Br1%5D/day=2026-11-20" in gateway.shown.getvalue()) is terminal
        assert "2 new parts, 6 bytes" in gateway.shown.getvalue()
