"""The folder of a run and a day."""

from __future__ import annotations

from datetime import UTC, date, datetime
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.commands.exporting.partition import NO_RUN, Partition, days, path_segment

LABELS = st.text(st.characters(min_codepoint=0x20, exclude_characters="\x7f", codec="utf-8"), min_size=1, max_size=256)


@pytest.mark.parametrize(
    ("run_id", "segment"),
    [
        ("grpo-7b_v1.2", "grpo-7b_v1.2"),
        ("a/b", "a%2Fb"),
        ("../../etc", "..%2F..%2Fetc"),
        ("100 %=é", "100%20%25%3D%C3%A9"),
        (None, NO_RUN),
        (NO_RUN, "%5F_HIVE_DEFAULT_PARTITION__"),
    ],
)
def test_a_run_is_safe_in_a_path_and_comes_back_from_it(run_id: str | None, segment: str) -> None:
    assert path_segment(run_id) == segment
    assert Partition(run_id, date(2026, 11, 21)).folder == f"run={segment}/day=2026-11-21"
    if run_id is not None:
        assert unquote(segment) == run_id


@given(LABELS, LABELS)
def test_no_two_runs_share_a_folder_and_every_name_fits(one: str, other: str) -> None:
    for run_id in (one, other):
        segment = path_segment(run_id)
        assert len(f"run={segment}") < 255
        assert "/" not in segment
        assert unquote(segment, errors="strict")
    assert (path_segment(one) == path_segment(other)) == (one == other)


def test_a_partition_is_asked_for_by_its_run_and_day() -> None:
    partition = Partition("r1", date(2026, 11, 21))
    assert partition.filters() == {
        "run_id": "r1",
        "since": "2026-11-21T00:00:00+00:00",
        "until": "2026-11-22T00:00:00+00:00",
    }
    assert Partition(None, date(2026, 11, 21)).filters()["run_id"] == ""


def test_days_are_those_of_utc() -> None:
    begin = datetime.fromisoformat("2026-11-21T01:00:00+02:00")
    assert days(begin, datetime(2026, 11, 21, 23, tzinfo=UTC)) == [date(2026, 11, 20), date(2026, 11, 21)]
