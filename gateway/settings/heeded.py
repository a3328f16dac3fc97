"""What may be said of a server's engine: words that an adapter heeds, or an error that names the nearest of them."""

from __future__ import annotations

from typing import Final

from pydantic import AfterValidator, ValidationInfo

from adapters.detect import Configured
from adapters.engines import UnknownEngine, UnknownFeature, check
from gateway.settings.errors import unknown


def _check(configured: Configured) -> None:
    """Raises ValueError, as pydantic wants it."""
    try:
        check(configured)
    except UnknownEngine as exc:
        raise ValueError(unknown(f"engine {exc.engine!r}", exc.engine, exc.known)) from exc
    except UnknownFeature as exc:
        raise ValueError(unknown(f"feature {exc.feature!r} {exc.whose}", exc.feature, exc.known)) from exc


def _engine(value: str | None) -> str | None:
    _check(Configured(engine=value))
    return value


def _version(value: str | None) -> str | None:
    _check(Configured(version=value))
    return value


def _features(value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
    # A model's `engine` stands before its `features`; where it was wrong itself, they are judged by all engines.
    _check(Configured(engine=info.data.get("engine"), features=frozenset(value)))
    return value


ENGINE: Final = AfterValidator(_engine)
VERSION: Final = AfterValidator(_version)
FEATURES: Final = AfterValidator(_features)
