"""TRL's `rollout_func` (experimental there): one row of the lists that its dict has.

`env_mask` is 1 for trained tokens, over the completion. `logprobs` is null where one was not told. All further columns
go on to the reward functions by name: `reward` (null where none was told), `session_id`, `group_id`, `weight` … Routed
experts stay with their spans: TRL takes none.
"""

from __future__ import annotations

from storage.formats.row import Row
from storage.formats.trainers.parts import all_told, beside
from storage.samples.sample import Sample


def row(sample: Sample) -> Row:
    split = sample.first_prompt_len
    ids = sample.token_ids.numpy()
    told = sample.logprobs[split:] if all_told(sample) else None
    columns = beside(sample)
    untold = {} if told is not None else {"partial_logprobs": columns.pop("logprobs")}
    return {
        "prompt_ids": ids[:split],
        "completion_ids": ids[split:],
        "logprobs": told,
        "env_mask": sample.mask[split:],
        **columns,
        **untold,
    }
