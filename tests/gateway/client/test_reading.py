"""What the gateway's own code writes of a sample is read back whole, in either form of its arrays."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
from hypothesis import given, settings

from gateway.client import Sample
from storage.formats import flat, packed
from storage.formats.writers import encode_row
from storage.samples.sample import Sample as Built
from tests.storage.formats.examples import samples

ARRAYS = ("token_ids", "mask", "logprobs")


def plain(values: Any) -> Any:
    """Without what differs by design: a tuple of values here is one there."""
    return json.loads(encode_row(values))


@given(samples())
@settings(max_examples=50)
def test_a_sample_is_read_as_it_was_built(built: Built) -> None:
    for form in (flat, packed):
        read = Sample.of(json.loads(encode_row(form.row(built))))
        np.testing.assert_array_equal(read.token_ids, built.token_ids.numpy())
        np.testing.assert_array_equal(read.mask, built.mask)
        np.testing.assert_array_equal(read.logprobs, built.logprobs)
        rest = {name: value for name, value in asdict(read).items() if name not in ARRAYS}
        told = {name: value for name, value in flat.row(built).items() if name not in ARRAYS}
        assert plain(rest) == plain(told)
