"""Frames of the native /generate stream, in every way in which servers repeat themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters.rules import Odd
from adapters.sglang_frames import Generated


def frame(text: str, ids: list[int], count: int | None, logprobs: list[list[object]] | None = None) -> Raw:
    meta: dict[str, object] = {"id": "r"}
    if count is not None:
        meta["completion_tokens"] = count
    if logprobs is not None:
        meta["output_token_logprobs"] = logprobs
    return Raw(json.dumps({"text": text, "output_ids": ids, "meta_info": meta}).encode())


def folded(*frames: Raw) -> Any:
    generated = Generated()
    for one in frames:
        generated.add(one)
    return json.loads(bytes(generated.json()))


def test_frames_that_bring_the_whole_so_far_are_taken_once() -> None:
    whole = folded(
        frame("He", [1], 1, [[-0.1, 1, None]]),
        frame("Hello", [1, 2], 2, [[-0.1, 1, None], [-0.2, 2, None]]),
        frame("Hello", [1, 2, 3], 3, [[-0.1, 1, None], [-0.2, 2, None], [-0.3, 3, None]]),
    )
    assert (whole["text"], whole["output_ids"]) == ("Hello", [1, 2, 3])
    assert whole["meta_info"]["output_token_logprobs"] == [[-0.1, 1, None], [-0.2, 2, None], [-0.3, 3, None]]
    assert whole["meta_info"]["completion_tokens"] == 3


def test_frames_that_bring_the_next_part_are_joined() -> None:
    whole = folded(
        frame("He", [1], 1, [[-0.1, 1, None]]),
        frame("llo", [2], 2, [[-0.2, 2, None]]),
        frame("", [3], 3, [[-0.3, 3, None]]),
    )
    assert (whole["text"], whole["output_ids"]) == ("Hello", [1, 2, 3])
    assert whole["meta_info"]["output_token_logprobs"] == [[-0.1, 1, None], [-0.2, 2, None], [-0.3, 3, None]]


def test_text_and_ids_are_each_told_in_their_own_way() -> None:
    whole = folded(frame("He", [1], 1), frame("Hello", [2], 2), frame("Hello", [3], 3))
    assert (whole["text"], whole["output_ids"]) == ("Hello", [1, 2, 3])


@pytest.mark.parametrize("again", [[2], [1, 2], []])
def test_what_an_aborted_request_is_told_again_is_taken_once(again: list[int]) -> None:
    whole = folded(frame("He", [1], 1), frame("llo", [2], 2), frame("Hello", again, 2))
    assert whole["output_ids"] == [1, 2]
    if again:
        assert whole["text"] == "Hello"


def test_an_abort_may_bring_ids_that_were_not_told_yet() -> None:
    whole = folded(frame("a", [1], 1), frame("b", [2], 2), frame("abc", [2, 3], 3))
    assert (whole["text"], whole["output_ids"]) == ("abc", [1, 2, 3])


def test_a_sampled_id_that_repeats_is_not_taken_for_one_told_again() -> None:
    whole = folded(frame("ha", [7], 1), frame("ha", [7], 2), frame("ha", [7], 3))
    assert (whole["text"], whole["output_ids"]) == ("hahaha", [7, 7, 7])


def test_a_text_whose_end_is_trimmed_at_a_stop_string_is_the_last_one() -> None:
    whole = folded(frame("1 2", [1], 1), frame("1 2 STOP", [1, 2], 2), frame("1 2 ", [1, 2, 3], 3))
    assert whole["text"] == "1 2 "


@pytest.mark.parametrize(
    "second",
    [
        frame("x", [9, 2], 2),  # the whole so far, and it is another
        frame("x", [2], 4),  # an id is missing between
        frame("x", [2], None),  # without a count nobody knows
        frame("x", [2, 3, 4], 1),  # fewer than there are
        Raw(b'{"output_ids":"12","meta_info":{}}'),
        Raw(b'{"output_ids":[2],"meta_info":[]}'),
        Raw(b"[]"),
    ],
)
def test_lists_that_do_not_fit_together_are_odd_and_left_out(second: Raw) -> None:
    generated = Generated()
    generated.add(frame("He", [1], 1))
    with pytest.raises(Odd):
        generated.add(second)
    assert json.loads(bytes(generated.json()))["output_ids"] == [1]


def test_a_frame_without_a_count_that_begins_with_all_before_is_the_whole() -> None:
    assert folded(frame("a", [1], None), frame("ab", [1, 2], None))["output_ids"] == [1, 2]


def test_what_was_not_told_is_not_there() -> None:
    assert "output_ids" not in folded(Raw(b'{"text":"Hi","meta_info":{"completion_tokens":1}}'))


@given(
    parts=st.lists(st.lists(st.integers(0, 3), min_size=0, max_size=3), min_size=1, max_size=8),
    whole=st.booleans(),
)
def test_ids_come_out_as_they_went_in_however_often_they_repeat(parts: list[list[int]], whole: bool) -> None:
    sampled: list[int] = []
    frames: list[Raw] = []
    for part in parts:
        sampled = sampled + part
        frames.append(frame("", sampled if whole else part, len(sampled)))
    assert folded(*frames)["output_ids"] == sampled
