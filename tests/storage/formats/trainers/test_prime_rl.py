import base64
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from storage.formats.flat import sample_from_row
from storage.formats.trainers import prime_rl
from storage.formats.trainers.parts import CannotShape
from storage.samples.sample import Sample
from tests.storage.formats.examples import QUICK, TOOL_BESIDE, TOOL_SAMPLE, as_json, same, samples
from tests.storage.formats.trainers.back import EXPERTS, MOE_SAMPLE, UNTOLD_SAMPLE


def test_a_tool_sample_is_this_row() -> None:
    assert as_json(prime_rl.row(TOOL_SAMPLE)) == {
        "token_ids": [1, 2, 3, 4, 10, 11, 12, 5, 6, 13, 14],
        "mask": [False, False, False, False, True, True, True, False, False, True, True],
        "logprobs": [0, 0, 0, 0, -0.5, -0.25, -0.125, 0, 0, -1, -2],
        "temperatures": [0.7] * 11,
        "env_name": "",
        "routed_experts": None,
        "rollout": TOOL_BESIDE,
    }


@QUICK
@given(samples(all_told=True))
def test_nothing_is_lost(sample: Sample) -> None:
    row = as_json(prime_rl.row(sample))
    arrays = {name: row[name] for name in ("token_ids", "mask", "logprobs")}
    assert same(sample_from_row(row["rollout"] | arrays), sample)


def test_each_token_has_the_temperature_that_it_or_what_follows_was_sampled_with() -> None:
    first, second = TOOL_SAMPLE.spans
    mixed = replace(TOOL_SAMPLE, spans=(replace(first, temperature=1.0), replace(second, temperature=0.5)))
    assert prime_rl.row(mixed)["temperatures"] == [1.0] * 7 + [0.5] * 4
    untold = replace(TOOL_SAMPLE, spans=(first, replace(second, temperature=None)))
    assert prime_rl.row(untold)["temperatures"] == []


def test_the_environment_is_what_the_session_calls_it() -> None:
    assert prime_rl.row(replace(TOOL_SAMPLE, metadata={"env_name": "gsm8k"}))["env_name"] == "gsm8k"


def test_routed_experts_have_a_row_for_each_id() -> None:
    told = as_json(prime_rl.row(MOE_SAMPLE))["routed_experts"]
    assert (told["shape"], told["dtype"]) == ([11, 2, 2], "uint8")
    experts = np.frombuffer(base64.b64decode(told["data"]), told["dtype"]).reshape(told["shape"])
    assert experts[:-1].tolist() == EXPERTS.tolist()
    assert not experts[-1].any()


def test_a_trained_token_without_its_logprob_is_refused() -> None:
    with pytest.raises(CannotShape, match="session math-17, row 0: prime-rl needs a logprob"):
        prime_rl.row(UNTOLD_SAMPLE)
