"""NeMo-RL's `DatumSpec` with a `message_log`: one message for each sampled span and for what stands between them.

An `assistant` message with `generation_logprobs` is what NeMo-RL trains, so a span that another row trains has none.
Roles inside the prompt are not known from ids: it is one `user` message, and what comes between spans `environment`.
`content` is text, which a sample has not: "". `loss_multiplier` is the row's weight, so that a session that forks
counts once. `total_reward` is null where none was told, `idx` is a place in a batch: null. `routed_experts` of each
message is as long as its ids; the sample's last id, which no model read, has −1: NeMo-RL's mark for no route. The rest
of the flat row is `extra_env_info`. Raises CannotShape where a trained token's logprob was not told.
"""

from __future__ import annotations

import numpy as np

from storage.formats.row import Row
from storage.formats.trainers.experts import Experts, routed_experts
from storage.formats.trainers.parts import beside, require_logprobs
from storage.samples.sample import Sample


def row(sample: Sample) -> Row:
    require_logprobs(sample, "NeMo-RL")
    experts = routed_experts(sample)
    return {
        "message_log": _messages(sample, None if experts is None else _with_last_row(experts)),
        "length": len(sample.token_ids),
        "loss_multiplier": sample.weight,
        "total_reward": sample.reward,
        "idx": None,
        "extra_env_info": beside(sample, experts_told=experts is not None),
    }


def _messages(sample: Sample, experts: Experts | None) -> list[Row]:
    messages: list[Row] = []
    end = 0
    for span in sample.spans:
        if span.start > end:
            messages.append(_message(sample, experts, "environment" if messages else "user", end, span.start))
        end = span.end
        said = _message(sample, experts, "assistant", span.start, end)
        if span.trained:
            said["generation_logprobs"] = sample.logprobs[span.start : end]
        messages.append(said)
    if end < len(sample.token_ids):
        messages.append(_message(sample, experts, "environment" if messages else "user", end, len(sample.token_ids)))
    return messages


def _message(sample: Sample, experts: Experts | None, role: str, start: int, end: int) -> Row:
    message: Row = {"role": role, "content": "", "token_ids": sample.token_ids.numpy()[start:end]}
    return message if experts is None else message | {"routed_experts": experts[start:end]}


def _with_last_row(experts: Experts) -> Experts:
    signed = experts if experts.dtype.kind == "i" else experts.astype(np.int32)
    return np.concatenate([signed, np.full_like(signed, -1, shape=(1, *signed.shape[1:]))])
