"""Tinker's `Datum`: the model reads all ids but the last, and everything else is of the id that follows each.

`advantages` are whoever's who has the group: not here. The rest of the flat row, the reward too, is `rollout`. Raises
CannotShape where a trained token's logprob was not told, and where nothing stands before the first trained token: no
input foretells it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from storage.formats.row import Row
from storage.formats.trainers.parts import CannotShape, beside, require_logprobs
from storage.samples.sample import Sample


def row(sample: Sample) -> Row:
    require_logprobs(sample, "Tinker")
    if len(sample.token_ids) < 2 or sample.mask[0]:
        raise CannotShape(sample, "Tinker trains a token by the one before it, and the first has none")
    ids = sample.token_ids.numpy()
    return {
        "model_input": {"chunks": [{"type": "encoded_text", "tokens": ids[:-1]}]},
        "loss_fn_inputs": {
            "target_tokens": _tensor(ids[1:], "int64"),
            "logprobs": _tensor(sample.logprobs[1:], "float32"),
            "mask": _tensor(sample.mask[1:].astype(np.float32), "float32"),
        },
        "rollout": beside(sample),
    }


def _tensor(data: npt.NDArray[Any], dtype: str) -> Row:
    return {"data": data, "dtype": dtype, "shape": [len(data)]}
