"""What PostgreSQL's errors mean to whoever writes: come back, come back at once, or never with this.

By SQLSTATE, of which the first two letters are a class: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from __future__ import annotations

from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

_OF_THE_VALUES: Final = {
    "21": "more rows than one",
    "22": "a value that its column does not take",
    "23": "a value that is there already, or that must be",
}
"""All that can be wrong with what our statements are given, for they are always the same."""
_CONFLICTS: Final = ("40001", "40P01")
_BEFORE_IT_SERVES: Final = ("57P03", "53300")


def is_trouble(exc: BaseException) -> bool:
    """Whether the database as a whole is the reason."""
    if isinstance(exc, DBAPIError) and exc.connection_invalidated:
        return True
    error = _driver_error(exc)
    if error is None:
        return isinstance(exc, OSError | NoConnection)
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate[:2] not in _OF_THE_VALUES


def is_conflict(exc: BaseException) -> bool:
    """Whether two transactions waited for each other, and this one was chosen to give way."""
    error = _driver_error(exc)
    return error is not None and error.sqlstate in _CONFLICTS


def is_silence(exc: BaseException) -> bool:
    """Whether the next one who asks would wait as long, and in vain."""
    error = _driver_error(exc)
    if error is None:
        return isinstance(exc, NoConnection)
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate in _BEFORE_IT_SERVES


def sqlstate(exc: BaseException) -> str | None:
    error = _driver_error(exc)
    return None if error is None else error.sqlstate


def told(exc: BaseException) -> str:
    """In the server's or the driver's words, of which the first line says it."""
    return str(_driver_error(exc) or exc).strip().partition("\n")[0]


def _driver_error(exc: BaseException) -> psycopg.Error | None:
    found = exc.orig if isinstance(exc, DBAPIError) else exc
    return found if isinstance(found, psycopg.Error) else None
