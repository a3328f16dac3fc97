"""prime-rl's `TrainingSample`: no prompt split, everything as long as `token_ids`.

`temperatures` has each span's own, and before a span that of the span, for the trainer divides all logits by them; it
is empty where one was not told, as prime-rl leaves it to its own train sink. `env_name` is the session's metadata of
that name, "" without. `routed_experts` has N rows (the last, of an id that no model read, is zeros, as prime-rl pads).
`advantages` are whoever's who has the group: not here. The rest of the flat row, the reward too, is `rollout`.
Raises CannotShape where a trained token's logprob was not told.
"""

from __future__ import annotations

import numpy as np

from storage.formats.row import Row
from storage.formats.trainers.experts import Experts, routed_experts
from storage.formats.trainers.parts import beside, require_logprobs
from storage.samples.sample import Sample


def row(sample: Sample) -> Row:
    require_logprobs(sample, "prime-rl")
    experts = routed_experts(sample)
    env_name = sample.metadata.get("env_name")
    return {
        "token_ids": sample.token_ids.numpy(),
        "mask": sample.mask.astype(bool),
        "logprobs": sample.logprobs,
        "temperatures": _temperatures(sample),
        "env_name": env_name if isinstance(env_name, str) else "",
        "routed_experts": None if experts is None else _with_last_row(experts),
        "rollout": beside(sample, experts_told=experts is not None),
    }


def _temperatures(sample: Sample) -> list[float]:
    temperatures: list[float] = []
    for span in sample.spans:
        if span.temperature is None:
            return []
        temperatures += [span.temperature] * (span.end - len(temperatures))
    # After the last span nothing is sampled, and nothing of it is trained.
    return temperatures + temperatures[-1:] * (len(sample.token_ids) - len(temperatures))


def _with_last_row(experts: Experts) -> Row:
    whole = np.concatenate([experts, np.zeros_like(experts, shape=(1, *experts.shape[1:]))])
    return {"data": whole.tobytes(), "shape": list(whole.shape), "dtype": whole.dtype.name}
