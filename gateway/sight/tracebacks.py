"""Tracebacks without what an agent sent: files, lines and functions, and an exception's words only where they are ours.

A `KeyError` says the key and a `ValueError` the value, and both may be out of a body.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Final

# Whose exceptions speak of files, hosts and statements, and never of what those were given.
_OURS: Final = ("adapters", "gateway", "storage")
_LIBRARIES: Final = ("alembic", "asyncio", "httpx", "psycopg", "sqlalchemy", "sqlite3")


def traceback_of(exc: BaseException | None) -> str:
    """The whole chain of causes, as Python prints it otherwise."""
    return "".join(_lines(exc, set())).rstrip("\n") if exc is not None else ""


def _lines(exc: BaseException, seen: set[int]) -> Iterator[str]:
    seen.add(id(exc))
    before = exc.__cause__ or (exc.__context__ if not exc.__suppress_context__ else None)
    if before is not None and id(before) not in seen:
        yield from _lines(before, seen)
        yield "\nand then\n\n"
    if exc.__traceback__ is not None:
        yield "Traceback (most recent call last):\n"
        yield from traceback.format_tb(exc.__traceback__)
    yield _words(exc) + "\n"
    if isinstance(exc, BaseExceptionGroup):
        for number, each in enumerate(exc.exceptions, 1):
            yield f"\n{number} of {len(exc.exceptions)}:\n\n"
            yield from _lines(each, seen)


def _words(exc: BaseException) -> str:
    kind = type(exc)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(exc, OSError | TimeoutError) or kind.__module__.partition(".")[0] in (*_OURS, *_LIBRARIES):
        return f"{name}: {exc}"
    return f"{name} (its words are left out, for they may be an agent's)"
