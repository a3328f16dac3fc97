"""The packed form is the flat one with its arrays as bytes, and loses nothing."""

from __future__ import annotations

import base64
import json

import numpy as np
from hypothesis import given

from storage.formats import flat, packed
from storage.formats.shapes import SHAPES
from storage.formats.writers import encode_row
from storage.samples.sample import Sample
from tests.storage.formats.examples import QUICK, TOOL_SAMPLE, same, samples


def test_arrays_are_base64_in_json() -> None:
    told = json.loads(encode_row(packed.row(TOOL_SAMPLE)))
    ids = base64.b64decode(told["token_ids"])
    assert ids[:8] == b"\x01\x00\x00\x00\x02\x00\x00\x00"
    assert base64.b64decode(told["mask"]) == bytes([0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1])
    assert np.frombuffer(base64.b64decode(told["logprobs"]), "<f4")[4:7].tolist() == [-0.5, -0.25, -0.125]
    assert told["first_prompt_len"] == 4


@QUICK
@given(samples())
def test_nothing_is_lost(sample: Sample) -> None:
    told = json.loads(encode_row(packed.row(sample)))
    arrays = {name: np.frombuffer(base64.b64decode(told[name]), dtype) for name, dtype in packed.ARRAYS.items()}
    assert same(flat.sample_from_row(told | arrays), sample)


def test_it_is_a_shape_to_ask_for() -> None:
    (row,) = SHAPES["packed"].rows([TOOL_SAMPLE])
    assert row == packed.row(TOOL_SAMPLE)
