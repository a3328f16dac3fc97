"""Prompts that go on from the one before: the same ids as by themselves, whatever came before."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from adapters.prompts import ToldPrompt, ToldPrompts
from adapters.token_ids import TokenIds

ids = st.lists(st.integers(0, 2**31 - 1), max_size=6) | st.lists(st.integers(0, 130), max_size=6)


def test_a_prompt_that_goes_on_has_the_ids_of_both() -> None:
    prompt = ToldPrompt()
    assert prompt(Raw(b"[1,2,3]")) == TokenIds([1, 2, 3])
    assert prompt(Raw(b"[1,2,3,44]")) == TokenIds([1, 2, 3, 44])
    assert prompt(Raw(b"[1,2,3,44,5,6]")) == TokenIds([1, 2, 3, 44, 5, 6])


def test_what_is_known_is_not_decoded_again() -> None:
    prompt = ToldPrompt()
    first = prompt(Raw(b"[1,2,3]"))
    assert prompt(Raw(b"[1,2,3]")) is first


def test_an_id_whose_digits_go_on_is_another_id() -> None:
    prompt = ToldPrompt()
    prompt(Raw(b"[1,2,3]"))
    assert prompt(Raw(b"[1,2,34,5]")) == TokenIds([1, 2, 34, 5])


def test_a_prompt_after_an_empty_one_is_read_by_itself() -> None:
    prompt = ToldPrompt()
    prompt(Raw(b"[]"))
    assert prompt(Raw(b"[7,8]")) == TokenIds([7, 8])


def test_a_shorter_prompt_is_read_by_itself() -> None:
    prompt = ToldPrompt()
    prompt(Raw(b"[1,2,3]"))
    assert prompt(Raw(b"[1,2]")) == TokenIds([1, 2])


@pytest.mark.parametrize(
    "text", [b"[1,2,-3]", b"[1,2,null]", b"[1,2,3.5]", b"[1,2,2147483648]", b'[1,2,"3"]', b"[1,2,true]"]
)
def test_what_goes_on_with_anything_but_ids_is_refused(text: bytes) -> None:
    prompt = ToldPrompt()
    prompt(Raw(b"[1,2]"))
    with pytest.raises(ValueError, match="not a list of token ids"):
        prompt(Raw(text))
    assert prompt(Raw(b"[1,2,3]")) == TokenIds([1, 2, 3])


@given(st.lists(st.tuples(ids, st.sampled_from([b"", b" "])), min_size=1, max_size=8), st.booleans())
def test_whatever_came_before_the_ids_are_those_of_the_text(lists: list[tuple[list[int], bytes]], grows: bool) -> None:
    prompt = ToldPrompt()
    so_far: list[int] = []
    for listed, blank in lists:
        so_far = [*so_far, *listed] if grows else listed
        text = msgspec.json.encode(so_far).replace(b",", b"," + blank).replace(b"]", blank + b"]")
        assert prompt(Raw(text)).tolist() == so_far


def test_sessions_have_prompts_of_their_own() -> None:
    prompts = ToldPrompts()
    one = prompts.of("one")
    one(Raw(b"[1,2,3]"))
    prompts.keep("one", one)
    assert prompts.of("one") is one
    assert prompts.of("two") is not one


def test_what_was_not_asked_for_in_five_minutes_is_forgotten() -> None:
    now = [0.0]
    prompts = ToldPrompts(clock=lambda: now[0])
    kept = {}
    for name, at in (("one", 0.0), ("two", 100.0), ("one", 200.0), ("three", 401.0)):
        now[0] = at
        kept[name] = prompts.of(name)
        kept[name](Raw(b"[1,2,3]"))
        prompts.keep(name, kept[name])
    assert prompts.of("one") is kept["one"]
    assert prompts.of("two") is not kept["two"]
    now[0] = 501.0
    prompts.keep("three", kept["three"])
    assert prompts.of("one") is not kept["one"]
    assert prompts.of("three") is kept["three"]


def test_what_does_not_fit_is_forgotten_from_the_oldest_on() -> None:
    prompts = ToldPrompts(max_bytes=45)
    kept = {}
    for name in ("a", "b", "a", "c"):
        kept[name] = prompts.of(name)
        kept[name](Raw(b"[1,2,3]"))
        prompts.keep(name, kept[name])
    assert prompts.of("a") is kept["a"]
    assert prompts.of("b") is not kept["b"]
    assert prompts.of("c") is kept["c"]


def test_a_session_that_was_told_no_prompt_is_not_kept() -> None:
    prompts = ToldPrompts()
    prompt = prompts.of("one")
    prompts.keep("one", prompt)
    assert prompts.of("one") is not prompt
