"""What a person may type after `export`."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from gateway.commands.errors import WrongUse
from gateway.commands.exporting.asked import Asked


def asked(
    *where: str,
    of: str = "samples",
    file_format: str = "parquet",
    status: str | None = None,
    since: str | None = None,
) -> Asked:
    filters = {"run_id": "r1", "style": None, "status": status}
    return Asked.of_words(of, file_format, filters, where, since=since, until=None)


def test_options_and_more_become_the_parameters_of_the_api() -> None:
    found = asked("require=complete", "undelivered_to=a=b", since="2026-11-20")
    assert found.query == {
        "of": "samples",
        "format": "parquet",
        "run_id": "r1",
        "require": "complete",
        "undelivered_to": "a=b",
    }
    assert found.since == datetime(2026, 11, 20, tzinfo=UTC)
    assert found.told()["since"] == "2026-11-20T00:00:00+00:00"


def test_days_are_within_the_bounds_as_utc_has_them() -> None:
    found = asked(since="2026-11-20T01:00:00+02:00")
    assert [found.within(date(2026, 11, day)) for day in (18, 19, 20)] == [False, True, True]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"of": "sessions"}, "--of is samples or traces, not sessions"),
        ({"file_format": "csv"}, "--format is parquet, jsonl, arrow, not csv"),
        ({"since": "yesterday"}, "--since yesterday: it is a date or a time, as 2026-11-20"),
        ({"status": "finished,faild"}, "--status is finished, failed, aborted, not faild"),
    ],
)
def test_what_is_mistyped_is_said_with_what_would_do(words: dict[str, str], says: str) -> None:
    with pytest.raises(WrongUse, match=says) as caught:
        asked(**words)  # type: ignore[arg-type]
    assert caught.value.exit_status == 2


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("require", "--where require: it is NAME=VALUE"),
        ("run_id=r2", "--where run_id=…: an export has an option for it"),
        ("cursor=c", "--where cursor=…: an export has an option for it, or decides it by itself"),
    ],
)
def test_a_further_parameter_is_a_name_and_a_value_of_its_own(where: str, says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        asked(where)
