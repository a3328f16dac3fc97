"""Signatures of thoughts: opaque, stable, and never a reason to fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.thought import recall, sign


@given(st.text())
def test_a_thought_that_is_not_shown_is_carried_by_its_signature(thought: str) -> None:
    assert recall(sign(thought, shown=False)) == thought
    assert recall(sign(thought, shown=True)) is None


def test_a_signature_is_the_same_whenever_it_is_made() -> None:
    assert sign("Hm.", shown=True) == sign("Hm.", shown=True) != sign("Hm!", shown=True)
    assert len(sign("Hm." * 10_000, shown=True)) < 60


@pytest.mark.parametrize("signature", ["", "rg1.t.", "rg1.t.%", "rg1.t.A", "rg1.t._w==", "rg1.d.AAAA", "EqQBCgIYAhIM"])
def test_what_is_no_signature_of_ours_carries_nothing(signature: str) -> None:
    assert not recall(signature)
