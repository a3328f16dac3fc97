"""Routed experts keep their bytes; what cannot be read of their header is null."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest

from adapters.routed_experts import routed_experts
from adapters.schema import RoutedExperts

EXPERTS = np.arange(24, dtype=np.int16).reshape(3, 2, 4)


def npy(array: np.ndarray) -> bytes:  # type: ignore[type-arg]
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_an_array_is_its_bytes_its_shape_and_its_dtype() -> None:
    assert routed_experts(encoded(npy(EXPERTS))) == RoutedExperts(EXPERTS.tobytes(), (3, 2, 4), "<i2")


def test_columns_first_is_turned_into_rows_first() -> None:
    assert routed_experts(encoded(npy(np.asfortranarray(EXPERTS)))) == RoutedExperts(
        EXPERTS.tobytes(), (3, 2, 4), "<i2"
    )


HEADER = b"\x93NUMPY\x01\x00"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no array",
        HEADER,
        HEADER + b"\xff\xff{}",
        HEADER + b"\x02\x00{}",
        HEADER + b"\x10\x00__import__('os')",
        HEADER + b"\x37\x00{'descr':'|O','fortran_order':False,'shape':(1,)}       12345678",
        npy(EXPERTS)[:-1],
        npy(EXPERTS) + b"x",
    ],
)
def test_what_is_no_such_array_is_bytes_alone(data: bytes) -> None:
    assert routed_experts(encoded(data)) == RoutedExperts(data, None, None)


def test_what_is_not_base64_is_nothing() -> None:
    assert routed_experts("not base64!") is None
