"""slime's and Miles' `Sample`, as `Sample.from_dict` takes it.

`rollout_id` is a number made of the session's id: rows of one session share it, so that a session that forks is one
rollout in the loss. `index` and `group_index` are places in a batch, which only whoever makes the batch knows: null.
`prompt` and `response` are text, which a sample has not: "". `weight_versions` has one for each sampled span whose
version was told. `rollout_log_probs` is null where one was not told, `reward` where none was. `loss_mask` and
`rollout_log_probs` are over the response, `rollout_routed_experts` has a row for each id but the last. The rest of
the flat row is `metadata`.
"""

from __future__ import annotations

from typing import Final

from adapters.schema import SessionStatus
from storage.formats.row import Row
from storage.formats.trainers.experts import routed_experts
from storage.formats.trainers.parts import all_told, beside, number_of
from storage.samples.sample import Sample

_STATUS: Final[dict[SessionStatus, str]] = {
    "open": "pending",
    "finished": "completed",
    "failed": "failed",
    "aborted": "aborted",
}


def row(sample: Sample) -> Row:
    split = sample.first_prompt_len
    ids = sample.token_ids.numpy()
    experts = routed_experts(sample)
    return {
        "group_index": None,
        "index": None,
        "rollout_id": number_of(sample.session_id),
        "prompt": "",
        "tokens": ids,
        "response": "",
        "response_length": len(ids) - split,
        "reward": sample.reward,
        "loss_mask": sample.mask[split:],
        "weight_versions": [span.version for span in sample.weight_versions],
        "rollout_log_probs": sample.logprobs[split:] if all_told(sample) else None,
        "rollout_routed_experts": experts,
        "status": _status(sample),
        "session_id": sample.session_id,
        "metadata": beside(sample, experts_told=experts is not None),
    }


def _status(sample: Sample) -> str:
    return "truncated" if sample.truncated and sample.status == "finished" else _STATUS[sample.status]
