"""AReaL's tensor dict, as its interactions' `to_tensor_dict` gives it: one sequence, without the batch dimension.

`versions` has a whole number for each trained or sampled token and −1 elsewhere. It is null where a sampled token's was
not told or is no whole number, and AReaL then assumes its engine's present one. `rewards` is null where none was told.
Raises CannotShape where a trained token's logprob was not told. Routed experts stay with their spans. The rest of the
flat row is `rollout`.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storage.formats.row import Row
from storage.formats.trainers.parts import beside, require_logprobs
from storage.samples.sample import Sample

_NOT_SAMPLED = -1
_UNTOLD = -2


def row(sample: Sample) -> Row:
    require_logprobs(sample, "AReaL")
    return {
        "input_ids": sample.token_ids.numpy(),
        "loss_mask": sample.mask,
        "logprobs": sample.logprobs,
        "versions": _versions(sample),
        "attention_mask": np.ones(len(sample.token_ids), bool),
        "rewards": sample.reward,
        "rollout": beside(sample),
    }


def _versions(sample: Sample) -> npt.NDArray[np.int32] | None:
    versions = np.full(len(sample.token_ids), _NOT_SAMPLED, np.int32)
    for span in sample.spans:
        versions[span.start : span.end] = _UNTOLD
    for told in sample.weight_versions:
        if not (told.version.isascii() and told.version.isdigit() and int(told.version) <= np.iinfo(np.int32).max):
            return None
        versions[told.start : told.end] = int(told.version)
    return None if (versions == _UNTOLD).any() else versions
