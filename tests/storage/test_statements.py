from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import bindparam, select, update
from sqlalchemy.exc import IntegrityError

from storage import sessions as session_rows
from storage.database import Database
from storage.errors import Unavailable
from storage.opening import open_database
from storage.tables import sessions
from tests.storage.examples import session


@pytest.fixture
def database(place: str) -> Iterator[Database]:
    database = open_database(place)
    yield database
    database.close()


def rows(*session_ids: str) -> list[dict[str, object]]:
    own = {"ended_seq": None, "written_by": None, "key_hash": b"\x00\xff"}
    return [session_rows.to_row(session(name)) | own for name in session_ids]


def test_a_row_is_written_as_its_tables_types_say(database: Database) -> None:
    insert = database.prepare(database.insert(sessions), sessions.c.keys())
    with database.write_connection() as db, db.begin():
        insert.execute(db, rows("a", "b"))
        insert.execute(db, [])
        found = db.execute(select(sessions)).all()
    assert [session_rows.from_row(row) for row in found] == [session("a"), session("b")]
    assert found[0].key_hash == b"\x00\xff"


def test_parameters_go_by_name_in_whatever_order_the_statement_has_them(database: Database) -> None:
    change = update(sessions).where(sessions.c.session_id == bindparam("of")).values(attempt=bindparam("to"))
    statement = database.prepare(change, ("of", "to"))
    with database.write_connection() as db, db.begin():
        database.prepare(database.insert(sessions), sessions.c.keys()).execute(db, rows("a", "b"))
        statement.execute(db, [{"to": 7, "of": "b"}, {"of": "a", "to": 5}])
        assert dict(db.execute(select(sessions.c.session_id, sessions.c.attempt)).all()) == {"a": 5, "b": 7}


def test_what_the_database_refuses_has_sqlalchemys_name(database: Database) -> None:
    insert = database.prepare(database.insert(sessions), sessions.c.keys())
    with database.write_connection() as db, pytest.raises(IntegrityError) as refused:
        insert.execute(db, rows("what an agent says", "what an agent says"))
    assert "what an agent says" not in str(refused.value).replace(str(refused.value.orig), "")


def test_a_question_gives_its_row_as_the_types_say(database: Database) -> None:
    with database.write_connection() as db, db.begin():
        database.prepare(database.insert(sessions), sessions.c.keys()).execute(db, rows("a"))
    ask = database.question(session_rows.FOUND)
    assert session_rows.from_row(ask("a")) == session("a")
    assert set(ask("never")) == {None}


def test_a_question_that_the_database_does_not_answer_says_so(database: Database) -> None:
    ask = database.question(session_rows.FOUND)
    with database.write_connection() as db:
        db.exec_driver_sql("ALTER TABLE tombstones RENAME TO gone")
        db.commit()
        with pytest.raises(Unavailable, match="tombstones"):
            ask("a")
        db.exec_driver_sql("ALTER TABLE gone RENAME TO tombstones")
        db.commit()
    assert set(ask("a")) == {None}
