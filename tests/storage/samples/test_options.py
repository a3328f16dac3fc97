from __future__ import annotations

import pytest

from storage.samples.options import SampleOptions


@pytest.mark.parametrize("wrong", [{"style": "rows"}, {"logprobs": "none"}, {"vocab_size": 0}])
def test_nonsense_is_refused_by_name(wrong: dict[str, object]) -> None:
    (name,) = wrong
    with pytest.raises(ValueError, match=name):
        SampleOptions(**wrong)  # type: ignore[arg-type]
