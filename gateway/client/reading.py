"""JSON of the gateway into frozen values. What a newer gateway tells beside them is passed over."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")
Scalar = TypeVar("Scalar", bound=np.generic)


def known(kind: type[T], told: Mapping[str, Any], **read: Any) -> T:
    """A `kind` with the fields that were told, those of `read` as they are given. Raises TypeError if one lacks."""
    names = (field.name for field in fields(kind))  # type: ignore[arg-type]
    return kind(**{name: told[name] for name in names if name in told} | read)


def each(read: Callable[[Mapping[str, Any]], T], told: Iterable[Mapping[str, Any]] | None) -> tuple[T, ...]:
    return tuple(read(item) for item in told or ())


def instant(told: str | None) -> datetime | None:
    return None if told is None else datetime.fromisoformat(told)


def array(told: list[Any] | str, dtype: type[Scalar]) -> npt.NDArray[Scalar]:
    """Numbers as an array of one's own; null is NaN. A string is the little-endian bytes of the array in base64."""
    if isinstance(told, str):
        stored = np.dtype(dtype).newbyteorder("<")
        return np.frombuffer(base64.b64decode(told, validate=True), stored).astype(dtype)
    return np.array(told, dtype=dtype)


def reader(read: Callable[[Mapping[str, Any]], T]) -> Callable[[bytes], T]:
    """From the bytes of a JSON object."""
    return lambda body: read(json.loads(body))


def nothing(body: bytes) -> None:
    """For answers whose status says it all."""
