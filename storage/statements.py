"""Statements that every batch runs: compiled once, then given to the driver with plain rows.

SQLAlchemy still says what they are, in the words of each database, and names what the database refuses; it is only not
asked again for each row and batch, which is most of what a small batch would cost.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Boolean, Connection, Dialect, Float, LargeBinary, Select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import PoolProxiedConnection
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase

_AS_THEY_ARE: Final = (Boolean, Float, LargeBinary)
"""SQLAlchemy would turn each such value into one of the kind that it is; every driver takes bools, floats and bytes."""


def execute(db: Connection, sql: str, rows: Sequence[tuple[Any, ...]] | None = None) -> int:
    """What `exec_driver_sql` does, but for its account of what it does: it gives how many rows it wrote.

    Raises SQLAlchemy's DBAPIError.
    """
    refused = db.dialect.loaded_dbapi.Error
    cursor = db.connection.cursor()
    try:
        if rows is None:
            cursor.execute(sql)
        else:
            cursor.executemany(sql, rows)
        return int(cursor.rowcount)
    except refused as exc:
        # What it was given are agents' words, and an error's text goes into the log.
        raise DBAPIError.instance(sql, rows, exc, refused, hide_parameters=True, dialect=db.dialect) from exc
    finally:
        cursor.close()


class Question:
    """A select of one row about one value, which needs no transaction and no more of SQLAlchemy than its types."""

    __slots__ = ("_ask_as", "_processes", "_row", "_sql", "_times")

    def __init__(self, statement: Select[*tuple[Any, ...]], dialect: Dialect) -> None:
        """The statement gives one row always, and has one parameter, wherever it stands."""
        compiled = statement.compile(dialect=dialect)
        assert isinstance(compiled, SQLCompiler)
        assert compiled.positiontup is not None, "the dialect's parameters have places, not names"
        self._sql: Final = compiled.string
        self._times: Final = len(compiled.positiontup)
        kind = compiled.binds[compiled.positiontup[0]].type
        self._ask_as: Final = kind.dialect_impl(dialect).bind_processor(dialect)
        columns = list(statement.selected_columns)
        self._row: Final = namedtuple("Row", [column.name for column in columns])  # type: ignore[misc]
        self._processes: Final = [
            (position, process)
            for position, column in enumerate(columns)
            if (process := column.type.dialect_impl(dialect).result_processor(dialect, None)) is not None
        ]

    def ask(self, connection: PoolProxiedConnection, about: str) -> Any:
        """The row, its values by their columns' names. Raises the driver's error."""
        cursor = connection.cursor()
        try:
            cursor.execute(self._sql, (self._ask_as(about) if self._ask_as else about,) * self._times)
            (found,) = cursor.fetchall()
        finally:
            cursor.close()
        values = list(found)
        for position, process in self._processes:
            values[position] = process(values[position])
        return self._row(*values)


class Statement:
    """An insert or update of many rows, each a mapping by the names of its parameters."""

    __slots__ = ("_processes", "_sql", "_values")

    def __init__(self, statement: UpdateBase, dialect: Dialect, names: Iterable[str]) -> None:
        """`names` are those of the columns and parameters that each row has."""
        compiled = statement.compile(dialect=dialect, column_keys=list(names))
        assert isinstance(compiled, SQLCompiler)
        order = compiled.positiontup
        assert order is not None, "the dialect's parameters have places, not names"
        self._sql: Final = compiled.string
        self._values: Final = itemgetter(*order)  # Of one name alone this would give no tuple; each has two or more.
        self._processes: Final = [
            (position, process)
            for position, name in enumerate(order)
            if not isinstance(kind := compiled.binds[name].type, _AS_THEY_ARE)
            and (process := kind.dialect_impl(dialect).bind_processor(dialect)) is not None
        ]

    def execute(self, db: Connection, rows: Iterable[Mapping[str, Any]]) -> int:
        """In the caller's transaction. Gives how many rows were written. Raises SQLAlchemy's DBAPIError."""
        parameters = [self._parameters(row) for row in rows]
        return execute(db, self._sql, parameters) if parameters else 0

    def _parameters(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        values = list(self._values(row))
        for position, process in self._processes:
            values[position] = process(values[position])
        return tuple(values)
