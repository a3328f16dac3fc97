from __future__ import annotations

import random

from storage.likeness import shared, sketch


def words(count: int, seed: int) -> bytes:
    rng = random.Random(seed)
    return " ".join(str(rng.getrandbits(24)) for _ in range(count)).encode()


def test_a_passage_is_found_at_another_offset() -> None:
    passage = words(2_000, seed=1)
    moved = words(300, seed=2) + passage + words(300, seed=3)
    assert shared(sketch(passage), sketch(moved)) > 0.9 * len(sketch(passage)) > 20


def test_texts_without_a_common_passage_share_nothing() -> None:
    assert shared(sketch(words(2_000, seed=1)), sketch(words(2_000, seed=2))) <= 1


def test_short_texts_have_empty_sketches() -> None:
    for length in range(40):
        assert len(sketch(b"x" * length)) <= length
