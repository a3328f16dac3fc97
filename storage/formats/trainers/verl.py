"""verl's `AgentLoopOutput`, as `verl.experimental.agent_loop` reads it (0.9).

`response_mask` is 1 for trained tokens alone: a span that another row trains is 0 here. `response_logprobs` is null
where one was not told, `reward_score` where no reward was. `num_turns` counts as verl does: the prompt, each sampled
span, and each run of ids between. `routed_experts` has N−1 rows, which verl itself pads. The rest of the flat row is
`extra_fields`, whose keys become columns of the `non_tensor_batch`: `session_id`, `group_id`, `weight` …
"""

from __future__ import annotations

from storage.formats.row import Row
from storage.formats.trainers.experts import routed_experts
from storage.formats.trainers.parts import all_told, beside
from storage.samples.sample import Sample


def row(sample: Sample) -> Row:
    split = sample.first_prompt_len
    ids = sample.token_ids.numpy()
    experts = routed_experts(sample)
    return {
        "prompt_ids": ids[:split],
        "response_ids": ids[split:],
        "response_mask": sample.mask[split:],
        "response_logprobs": sample.logprobs[split:] if all_told(sample) else None,
        "routed_experts": experts,
        "reward_score": sample.reward,
        "num_turns": _turns(sample),
        "metrics": {},
        "extra_fields": beside(sample, experts_told=experts is not None),
    }


def _turns(sample: Sample) -> int:
    ends = [0, *(span.end for span in sample.spans)]
    return len(sample.spans) + sum(span.start > end for span, end in zip(sample.spans, ends, strict=False))
