"""The columns' text: compared by its bytes on every database, and with every character that a JSON string may have.

PostgreSQL's text has no NUL, and compares by the rules of a language unless told otherwise. A NUL is written there as
a character that no text has (https://www.unicode.org/faq/private_use.html#noncharacters), and read back as it was.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import Dialect, String, TypeDecorator

_ESCAPE: Final = "\ufdd0"
_NUL: Final = f"{_ESCAPE}0"
_ESCAPED_ESCAPE: Final = f"{_ESCAPE}1"


class _PostgresText(TypeDecorator[str]):
    impl = String
    cache_ok = True

    def __init__(self) -> None:
        super().__init__(collation="C")

    def bind_processor(self, dialect: Dialect) -> Callable[[Any], Any]:
        return written

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        return read


def written(value: str | None) -> str | None:
    if value is None or (value.isascii() and "\0" not in value):
        return value
    return value.replace(_ESCAPE, _ESCAPED_ESCAPE).replace("\0", _NUL)


def read(value: str | None) -> str | None:
    if value is None or _ESCAPE not in value:
        return value
    return value.replace(_NUL, "\0").replace(_ESCAPED_ESCAPE, _ESCAPE)


Text: Final = String().with_variant(_PostgresText(), "postgresql")
"""What others wrote: agents, engines, trainers."""
Word: Final = String().with_variant(String(collation="C"), "postgresql")
"""One of those that we know."""
