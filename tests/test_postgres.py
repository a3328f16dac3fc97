"""The PostgreSQL that tests start: it goes, comes back and hangs as the tests of the store need it to."""

from __future__ import annotations

import psycopg
import pytest

from tests.postgres import Postgres


def test_what_was_committed_outlives_a_kill_and_a_stop(own_postgres: Postgres) -> None:
    url = own_postgres.database()
    with psycopg.connect(url) as db:
        db.execute("CREATE TABLE t (n int)")
    own_postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    own_postgres.start()
    own_postgres.stop()
    own_postgres.start()
    with psycopg.connect(url) as db:
        assert db.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_paused_server_answers_nothing_until_it_is_resumed(own_postgres: Postgres) -> None:
    url = own_postgres.database()
    own_postgres.pause()
    with pytest.raises(psycopg.OperationalError, match="timeout"):
        psycopg.connect(url, connect_timeout=2)
    own_postgres.resume()
    with psycopg.connect(url) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)


def test_each_database_is_a_new_one(postgres: Postgres) -> None:
    assert postgres.database() != postgres.database()
