from __future__ import annotations

import pytest

from storage.location import postgres_of
from storage.postgres.naming import name_of


@pytest.fixture(autouse=True)
def nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        # As every version has named these.
        ("postgresql://user:secret@db.internal:5433/rollouts", "postgresql://db.internal:5433/rollouts"),
        ("postgres://db.internal/rollouts?sslmode=require", "postgresql://db.internal/rollouts"),
        ("postgresql:///rollouts?host=127.0.0.1&port=5433&user=u", "postgresql://127.0.0.1:5433/rollouts"),
        ("postgresql:///rollouts?host=b:2&host=a:1", "postgresql://a:1,b:2/rollouts"),
        ("postgresql:///rollouts?host=a,b&port=1,2", "postgresql://a:1,b:2/rollouts"),
        ("postgresql:///rollouts?host=/run/postgresql", "postgresql:///run/postgresql/rollouts"),
        ("postgresql://db.internal/rollouts?hostaddr=10.0.0.1", "postgresql://10.0.0.1/rollouts"),
        ("postgresql:///rollouts?service=staging", "postgresql://service=staging/rollouts"),
        ("postgresql:///rollouts", "postgresql://[local]/rollouts"),
    ],
)
def test_a_database_is_named_by_the_servers_that_its_url_tells(url: str, name: str) -> None:
    assert name_of(postgres_of(url)) == name


def test_what_the_url_does_not_tell_is_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "staging")
    monkeypatch.setenv("PGPORT", "5433")
    assert name_of(postgres_of("postgresql:///rollouts")) == "postgresql://staging:5433/rollouts"
    assert name_of(postgres_of("postgresql://db:5434/rollouts")) == "postgresql://db:5434/rollouts"
    monkeypatch.setenv("PGHOST", "b,a")
    assert name_of(postgres_of("postgresql:///rollouts")) == "postgresql://a:5433,b:5433/rollouts"
