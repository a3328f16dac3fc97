"""What the trainers' records have in common: a place for what they have no field for, and what they must have."""

from __future__ import annotations

import hashlib

import numpy as np

from storage.formats import flat
from storage.formats.row import Row
from storage.samples.sample import Sample

_ARRAYS = ("token_ids", "mask", "logprobs")


class CannotShape(ValueError):
    """A sample that a trainer's record has no true place for. The message says which and what to do."""

    def __init__(self, sample: Sample, why: str) -> None:
        super().__init__(f"session {sample.session_id}, row {sample.branch}: {why}")


def beside(sample: Sample, *, experts_told: bool = False) -> Row:
    """The flat row without its arrays: session, run, group, weight, reward, spans, versions, findings …

    So a trainer's row with this beside its own fields has lost nothing. Where the record itself tells the routed
    experts (`experts_told`) the spans don't repeat them; logprobs stand here where some were not told, for no trainer
    takes a list with gaps.
    """
    row = {name: value for name, value in flat.row(sample).items() if name not in _ARRAYS}
    if experts_told:
        row["spans"] = [span | {"routed_experts": None} for span in row["spans"]]
    if not all_told(sample):
        row["logprobs"] = sample.logprobs
    return row


def all_told(sample: Sample) -> bool:
    """Whether every sampled and trained token has its logprob."""
    return not bool(np.isnan(sample.logprobs).any())


def require_logprobs(sample: Sample, trainer: str) -> None:
    """Raises CannotShape where one is missing."""
    if not all_told(sample):
        why = f"{trainer} needs a logprob for every trained token and some were not told; ask with logprobs=required"
        raise CannotShape(sample, why)


def number_of(key: str) -> int:
    """A number that stands for a key where a record takes no string: 63 bits of its SHA-256, so always the same."""
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") >> 1
