"""What may be said of a server's engine: words that an adapter heeds, or an error that names the nearest of them."""

from __future__ import annotations

from typing import Final

from pydantic import AfterValidator, ValidationInfo

from adapters.detect import Configured
from adapters.engines import UnknownEngine, UnknownWord, check
from gateway.settings.errors import unknown


def _check(configured: Configured) -> None:
    """Raises ValueError, as pydantic wants it."""
    try:
        check(configured)
    except UnknownEngine as exc:
        raise ValueError(unknown(f"engine {exc.engine!r}", exc.engine, exc.known)) from exc
    except UnknownWord as exc:
        raise ValueError(unknown(exc.told, exc.word, exc.known)) from exc


def _engine(value: str | None) -> str | None:
    _check(Configured(engine=value))
    return value


def _version(value: str | None) -> str | None:
    _check(Configured(version=value))
    return value


def _variant(value: str | None, info: ValidationInfo) -> str | None:
    # A model's `engine` stands before what is judged by it; where it was wrong itself, all engines judge.
    _check(Configured(engine=info.data.get("engine"), variant=value))
    return value


def _features(value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    _check(Configured(engine=info.data.get("engine"), features=frozenset(value)))
    return value


ENGINE: Final = AfterValidator(_engine)
VERSION: Final = AfterValidator(_version)
VARIANT: Final = AfterValidator(_variant)
FEATURES: Final = AfterValidator(_features)
