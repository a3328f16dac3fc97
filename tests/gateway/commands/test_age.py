from __future__ import annotations

import pytest

from gateway.commands.age import seconds_of
from gateway.commands.errors import WrongUse


@pytest.mark.parametrize(
    ("age", "seconds"),
    [("45s", 45), ("90m", 5_400), ("12h", 43_200), ("30d", 2_592_000), ("2w", 1_209_600), ("1.5h", 5_400)],
)
def test_an_age_is_a_number_and_a_unit(age: str, seconds: float) -> None:
    assert seconds_of(age) == seconds


@pytest.mark.parametrize("age", ["", "30", "d", "-3d", "3x", "3 d", "1e3d", "3d4h"])
def test_anything_else_is_an_error_with_an_example(age: str) -> None:
    with pytest.raises(WrongUse, match="write for instance 30d"):
        seconds_of(age)
