"""Hashes in pieces are those of the whole."""

from __future__ import annotations

import hashlib

import pytest

from storage import hashes

LENGTHS = (0, 1, 2047, 2048, 4094, 4095, 64 * 1024, 64 * 1024 + 1, 200_000)


@pytest.mark.parametrize("length", LENGTHS)
def test_a_hash_does_not_depend_on_the_pieces_that_it_is_told(length: int) -> None:
    data = bytes(i * 7 % 251 for i in range(length))
    assert hashes.sha256(data).digest() == hashlib.sha256(data).digest()
    begun = hashes.sha256(b"before")
    hashes.update(begun, memoryview(data))
    assert begun.digest() == hashlib.sha256(b"before" + data).digest()


def test_parts_are_hashed_one_behind_the_other() -> None:
    parts = [b"a" * length for length in LENGTHS]
    assert hashes.sha256(*parts).digest() == hashlib.sha256(b"".join(parts)).digest()
