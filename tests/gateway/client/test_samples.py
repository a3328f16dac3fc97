"""Samples come as arrays that a trainer can take, with what it has to know of them."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from gateway.client import Conflict, InvalidCall, NotFound, RoutedExperts, Sample, SampledSpan
from gateway.client.saving import saving
from tests.gateway.client.harness import Reached
from tests.gateway.client.rollouts import IDS, LOGPROBS, MASK, rollout


def test_a_sample_is_three_arrays_of_one_length(gateway: Reached) -> None:
    rollout(gateway, "s-1", run_id="r1", group_id="g1", metadata={"seed": 7})
    (sample,) = gateway.client.samples(run="r1")
    assert isinstance(sample, Sample)
    assert (sample.token_ids.dtype, sample.token_ids.tolist()) == (np.int32, IDS)
    assert (sample.mask.dtype, sample.mask.tolist()) == (np.int8, MASK)
    assert (sample.logprobs.dtype, sample.logprobs.tolist()) == (np.float32, LOGPROBS)
    assert len(sample) == 7
    assert sample.token_ids.flags.writeable
    assert (sample.session_id, sample.run_id, sample.group_id, sample.branch) == ("s-1", "r1", "g1", 0)
    assert (sample.first_prompt_len, sample.weight, sample.reward, sample.truncated) == (3, 1.0, None, False)
    assert [(span.start, span.end, span.finish_reason) for span in sample.spans] == [(3, 5, "stop"), (6, 7, "stop")]
    assert {span.version for span in sample.weight_versions} == {"7"}
    assert len(sample.trace_ids) == 2
    assert sample.metadata == {"seed": 7}


def test_routed_experts_are_an_array_where_the_engine_says_how_to_read_them() -> None:
    told = {"data": base64.b64encode(bytes([0, 1, 2, 3, 4, 5])).decode(), "shape": [3, 2], "dtype": "uint8"}
    span = {"trace_id": "t", "index": 0, "start": 0, "end": 3, "trained": True}
    experts = SampledSpan.of({**span, "routed_experts": told}).routed_experts
    assert experts is not None
    assert experts.array().tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ValueError, match="neither shape nor type"):
        RoutedExperts.of({**told, "dtype": None}).array()
    assert SampledSpan.of({**span, "routed_experts": None}).routed_experts is None


def test_a_sample_of_unequal_arrays_is_none() -> None:
    with pytest.raises(ValueError, match="2 ids, 1 of mask, 2 logprobs"):
        Sample("s", 0, np.zeros(2, np.int32), np.zeros(1, np.int8), np.zeros(2, np.float32), 0)


def test_rewards_ride_on_samples_late_and_revised(gateway: Reached) -> None:
    rollout(gateway, "s-1")
    gateway.client.reward("s-1", 0.5, name="correct", metadata={"judge": "a"})
    gateway.client.reward("s-1", 12.0, name="length", weight=0)
    gateway.client.reward("s-1", 1.0, name="correct", reward_id="judge-a-2")
    gateway.client.reward("s-1", 1.0, name="correct", reward_id="judge-a-2")
    (sample,) = gateway.client.samples()
    assert sample.reward == 1.0
    assert {reward.name: reward.value for reward in sample.rewards} == {"correct": 1.0, "length": 12.0}
    assert [reward.value for reward in gateway.client.read_session("s-1").rewards] == [0.5, 12.0, 1.0]
    with pytest.raises(Conflict) as caught:
        gateway.client.reward("s-1", 0.0, name="correct", reward_id="judge-a-2")
    assert caught.value.code == "reward_exists"


def test_a_reward_may_be_a_number_of_numpy_and_is_finite(gateway: Reached) -> None:
    rollout(gateway, "s-1")
    gateway.client.reward("s-1", np.float32(0.5))
    with pytest.raises(ValueError, match="a reward is a finite number, not nan"):
        gateway.client.reward("s-1", float("nan"))
    assert [reward.value for reward in gateway.client.read_session("s-1").rewards] == [0.5]


def test_a_reward_in_the_block_of_a_session_is_kept_when_it_fails(gateway: Reached) -> None:
    def agent() -> None:
        with gateway.client.session(session_id="s-1") as s:
            s.reward(0.7)
            raise RuntimeError("the agent gave up")

    with pytest.raises(RuntimeError):
        agent()
    session = gateway.client.read_session("s-1")
    assert (session.status, [reward.value for reward in session.rewards]) == ("failed", [0.7])


def test_samples_come_in_the_order_of_their_ends_over_many_pages(gateway: Reached) -> None:
    for number in (3, 1, 4, 2, 5):
        rollout(gateway, f"s-{number}", run_id="r1")
    samples = gateway.client.samples(run="r1", page_size=2)
    assert [sample.session_id for sample in samples] == ["s-3", "s-1", "s-4", "s-2", "s-5"]
    assert samples.complete
    rollout(gateway, "s-6", run_id="r1")
    assert [sample.session_id for sample in gateway.client.samples(run="r1", cursor=samples.cursor)] == ["s-6"]


def test_a_walk_that_broke_off_goes_on_behind_the_last_whole_page(gateway: Reached) -> None:
    for number in range(5):
        rollout(gateway, f"s-{number}", run_id="r1")
    samples = gateway.client.samples(run="r1", page_size=2)
    assert [next(samples).session_id for _ in range(3)] == ["s-0", "s-1", "s-2"]
    again = gateway.client.samples(run="r1", cursor=samples.cursor)
    assert [sample.session_id for sample in again] == ["s-2", "s-3", "s-4"]


def test_what_comes_is_followed(gateway: Reached) -> None:
    rollout(gateway, "s-1", run_id="r1")
    samples = gateway.client.follow(run="r1", idle=30)
    assert next(samples).session_id == "s-1"
    rollout(gateway, "s-2", run_id="r1")
    assert next(samples).session_id == "s-2"
    assert list(gateway.client.follow(run="r2", idle=0.1)) == []


def test_samples_are_chosen_and_built_as_asked(gateway: Reached) -> None:
    rollout(gateway, "s-1", run_id="r1")
    rollout(gateway, "s-2", run_id="r1", status="failed")
    assert [sample.session_id for sample in gateway.client.samples(status=["finished", "failed"])] == ["s-1", "s-2"]
    calls = list(gateway.client.samples(session="s-1", style="traces"))
    assert [sample.token_ids.tolist() for sample in calls] == [[1, 2, 3, 4, 5], IDS]
    assert [len(sample) for sample in gateway.client.session_samples("s-2")] == [7]
    assert list(gateway.client.samples(min_weight_version="8")) == []
    with pytest.raises(InvalidCall, match="style"):
        list(gateway.client.samples(style="folded"))
    with pytest.raises(NotFound):
        gateway.client.session_samples("s-3")


def test_an_open_session_has_samples_so_far(gateway: Reached) -> None:
    rollout(gateway, "s-1")
    with gateway.client.session(session_id="s-9") as s:
        assert gateway.client.session_samples(s.id) == ()


def test_rows_come_in_a_trainers_own_shape(gateway: Reached) -> None:
    rollout(gateway, "s-1", run_id="r1")
    (row,) = gateway.client.rows("trl", run="r1")
    assert (row["prompt_ids"], row["completion_ids"], row["env_mask"]) == (IDS[:3], IDS[3:], MASK[3:])
    with gateway.client.claim(run="r1") as work:
        assert list(work.rows("trl")) == [row]


def test_an_export_is_a_file_or_nothing(gateway: Reached, tmp_path: Path) -> None:
    for number in range(3):
        rollout(gateway, f"s-{number}", run_id="r1")
    path = tmp_path / "samples.jsonl"
    exported = gateway.client.export(path, format="jsonl", run="r1")
    lines = path.read_bytes()
    assert (exported.size, exported.cursor) == (len(lines), None)
    assert [json.loads(line)["token_ids"] for line in lines.splitlines()] == [IDS] * 3
    with pytest.raises(InvalidCall):
        gateway.client.export(path, format="csv")
    assert path.read_bytes() == lines
    assert [name.name for name in tmp_path.glob("samples*")] == ["samples.jsonl"]


def test_two_that_write_one_file_do_not_write_into_each_others(tmp_path: Path) -> None:
    path = tmp_path / "samples.jsonl"
    with saving(path) as one, saving(path) as other:
        other.write(b"whole\n")
        one.write(b"half")
        one.write(b" and half\n")
    assert [file.read_text() for file in tmp_path.iterdir()] == ["half and half\n"]


def test_an_export_goes_on_part_by_part(gateway: Reached, tmp_path: Path) -> None:
    for number in range(3):
        rollout(gateway, f"s-{number}", run_id="r1")
    path = tmp_path / "samples.jsonl"
    with path.open("wb") as file:
        first = gateway.client.export(file, format="jsonl", run="r1", limit=2)
        gateway.client.export(file, format="jsonl", run="r1", cursor=first.cursor)
    sessions = [json.loads(line)["session_id"] for line in path.read_bytes().splitlines()]
    assert sessions == ["s-0", "s-1", "s-2"]


def test_traces_are_exported_as_parquet(gateway: Reached, tmp_path: Path) -> None:
    rollout(gateway, "s-1", run_id="r1")
    gateway.client.export(tmp_path / "traces.parquet", of="traces", format="parquet", run="r1")
    assert (tmp_path / "traces.parquet").read_bytes()[:4] == b"PAR1"
