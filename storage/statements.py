"""Statements that every batch runs: compiled once, then given to the driver with plain rows.

SQLAlchemy still says what they are, in the words of each database; it is only not asked again for each row, which is
most of what a small batch would cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection, Dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.dml import UpdateBase


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
            if (process := compiled.binds[name].type.dialect_impl(dialect).bind_processor(dialect)) is not None
        ]

    def execute(self, db: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        if parameters := [self._parameters(row) for row in rows]:
            db.exec_driver_sql(self._sql, parameters)

    def _parameters(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        values = list(self._values(row))
        for position, process in self._processes:
            values[position] = process(values[position])
        return tuple(values)
