"""SkyRL's `GeneratorOutput`: one row of its lists, under their plural names.

`trajectory_ids` has the group as `instance_id` (the session, where it is in no group) and as `repetition_id` a number
made of the session's id. `rewards` is null where none was told, `rollout_logprobs` where one was not. `stop_reasons` is
the last span's. `rollout_expert_indices` has N−1 rows. `is_last_step` is null: a merged row is no step, and which of
single calls is the last only whoever has the whole session knows. The rest of the flat row is `rollout`.
"""

from __future__ import annotations

from storage.formats.row import Row
from storage.formats.trainers.experts import routed_experts
from storage.formats.trainers.parts import all_told, beside, number_of
from storage.samples.sample import Sample


def row(sample: Sample) -> Row:
    split = sample.first_prompt_len
    ids = sample.token_ids.numpy()
    experts = routed_experts(sample)
    return {
        "prompt_token_ids": ids[:split],
        "response_ids": ids[split:],
        "rewards": sample.reward,
        "loss_masks": sample.mask[split:],
        "stop_reasons": sample.spans[-1].finish_reason if sample.spans else None,
        "rollout_logprobs": sample.logprobs[split:] if all_told(sample) else None,
        "trajectory_ids": {
            "instance_id": sample.session_id if sample.group_id is None else sample.group_id,
            "repetition_id": number_of(sample.session_id),
        },
        "rollout_expert_indices": experts,
        "is_last_step": None,
        "rollout": beside(sample, experts_told=experts is not None),
    }
