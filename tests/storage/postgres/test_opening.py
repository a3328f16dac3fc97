"""What a gateway says that can't start on a PostgreSQL, and several that start on one at once."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from storage.errors import CannotOpen, SchemaNewer, Unavailable
from storage.opening import open_database
from storage.store import Store
from storage.tables import metadata
from tests.postgres import GUARDED, Postgres
from tests.storage.behind import behind


def test_the_migrations_make_the_tables_that_the_program_names(postgres: Postgres) -> None:
    url = postgres.database()
    open_database(url).close()
    with behind(url) as db:
        assert compare_metadata(MigrationContext.configure(db), metadata) == []
        unsorted = db.execute(
            text(
                "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
                " AND data_type = 'character varying' AND collation_name IS DISTINCT FROM 'C'"
                " AND table_name <> 'alembic_version'"
            )
        ).all()
    assert unsorted == []


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_each_way_of_writing_the_url_opens_it(postgres: Postgres, scheme: str) -> None:
    open_database(postgres.database().replace("postgresql", scheme, 1)).close()


async def test_several_that_start_at_once_migrate_it_once(postgres: Postgres) -> None:
    url = postgres.database()
    opened = await asyncio.gather(*(asyncio.to_thread(open_database, url) for _ in range(6)))
    for database in opened:
        database.close()
    with behind(url) as db:
        assert db.execute(text("SELECT count(*) FROM alembic_version")).scalar_one() == 1


def test_a_schema_newer_than_the_program_is_refused_and_left_alone(postgres: Postgres) -> None:
    url = postgres.database()
    open_database(url).close()
    with behind(url) as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(SchemaNewer, match=r"schema 9999.*newer rollout-gateway.*Start that version"):
        open_database(url)


@pytest.fixture
def guarded(postgres: Postgres) -> str:
    """A database whose role says a password, and may do nothing in it."""
    name = postgres.database().rpartition("/")[2]
    postgres.run(f"DROP ROLE IF EXISTS {GUARDED}")
    postgres.run(f"CREATE ROLE {GUARDED} LOGIN PASSWORD 'hunter2'")
    return postgres.url(name, f"{GUARDED}:hunter2")


def test_a_role_that_may_make_no_tables_is_told_which_right_it_lacks(guarded: str) -> None:
    with pytest.raises(CannotOpen, match=f"the role {GUARDED} may not .*GRANT CREATE, USAGE ON SCHEMA public TO"):
        open_database(guarded)


def test_a_wrong_password_is_said_and_never_shown(guarded: str) -> None:
    with pytest.raises(CannotOpen, match="password authentication failed") as caught:
        open_database(guarded.replace("hunter2", "hunter3"))
    said: BaseException | None = caught.value
    while said is not None:
        assert "hunter3" not in str(said)
        said = said.__cause__


def test_a_database_that_is_not_there_is_said(postgres: Postgres) -> None:
    with pytest.raises(CannotOpen, match=r'127.0.0.1.*database "nothing" does not exist'):
        open_database(postgres.url("nothing"))


def test_a_server_that_is_not_there_is_said() -> None:
    with pytest.raises(CannotOpen, match=r"postgresql://127.0.0.1:1/name can't be opened: .*[Rr]efused"):
        open_database("postgresql://user:hunter2@127.0.0.1:1/name")


def test_an_option_that_the_driver_does_not_know_is_said() -> None:
    with pytest.raises(CannotOpen, match=r"can't be opened: .*no_such_option"):
        open_database("postgresql://user@127.0.0.1:1/name?no_such_option=1")


def test_a_database_that_can_not_hold_every_text_is_refused(postgres: Postgres) -> None:
    postgres.run(
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    )
    with pytest.raises(CannotOpen, match=r"has the encoding LATIN1.*ENCODING 'UTF8'"):
        open_database(postgres.url("latin"))


def test_without_its_driver_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.startswith(("psycopg", "storage.postgres"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(CannotOpen, match=r"needs PostgreSQL's driver .*pip install 'rollout-gateway\[postgres\]'") as e:
        open_database("postgresql://user:hunter2@host/name")
    assert "hunter2" not in str(e.value)
    open_database(tmp_path / "a.db").close()


def test_what_a_url_says_of_the_connection_counts(postgres: Postgres) -> None:
    url = postgres.database()
    database = open_database(f"{url}?application_name=mine")
    with database.read() as db:
        assert db.scalar(text("SELECT current_setting('application_name')")) == "mine"
    database.close()
    with psycopg.connect(url) as db:
        assert db.execute("SELECT 1").fetchone() == (1,)


def test_a_server_that_takes_nothing_is_said(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.database()
    open_database(url).close()
    with behind(url) as db:
        db.execute(text(f"ALTER DATABASE {urlsplit(url).path[1:]} SET default_transaction_read_only = on"))
    with pytest.raises(Unavailable, match=r"can't be written: .* in a read-only transaction"):
        Store.open(url, gateway_id="gateway-1", spool=tmp_path / "spool")


def test_no_setting_of_the_server_cuts_a_connection_that_is_kept(postgres: Postgres) -> None:
    url = postgres.database()
    with behind(url) as db:
        db.execute(text(f"ALTER DATABASE {urlsplit(url).path[1:]} SET idle_session_timeout = '100ms'"))
    database = open_database(url)
    with database.write_connection() as db, db.begin():
        assert db.execute(text("SHOW idle_session_timeout")).scalar_one() == "0"
    database.close()


def test_hosts_and_ports_that_do_not_match_are_said() -> None:
    with pytest.raises(CannotOpen, match="the database's URL can't be used: number of hosts and ports don't match"):
        open_database("postgresql://user@/name?host=a,b&port=5432")
