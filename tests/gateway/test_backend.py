"""One backend at run time: what counts as its load, and what it is asked for."""

from __future__ import annotations

import pytest

from adapters.server import Server
from gateway.backend import Backend
from gateway.settings import BackendSettings


def backend(options: str = "") -> Backend:
    return Backend(BackendSettings.parse(f"http://gpu:8000{options}"))


def test_a_session_between_two_calls_is_load_for_a_while() -> None:
    a = backend()
    a.began("s1")
    a.began(None)
    assert (a.in_flight, a.load(100.0)) == (2, 2)
    a.ended("s1", 100.0)
    a.ended(None, 100.0)
    assert (a.in_flight, a.load(110.0)) == (0, 1)
    assert a.load(110.1) == 0


def test_a_session_that_calls_again_counts_once() -> None:
    a = backend()
    for now in (100.0, 101.0, 102.0):
        a.began("s1")
        assert a.load(now) == 1
        a.ended("s1", now)
    assert a.load(102.0) == 1


def test_of_many_sessions_those_that_rest_longest_are_forgotten_first() -> None:
    a = backend()
    for number in range(20):
        a.began(f"s{number}")
        a.ended(f"s{number}", 100.0 + number)
    assert a.load(119.5) == 10


@pytest.mark.parametrize(
    ("model", "serves", "called"),
    [
        ("qwen-3", True, "qwen-3"),
        ("gpt-4o", True, "qwen-3"),
        ("llama", False, "llama"),
        (None, True, None),
    ],
)
def test_a_model_is_served_by_its_name_by_a_pattern_or_by_an_alias(
    model: str | None, serves: bool, called: str | None
) -> None:
    a = backend(",models=qwen*,aliases=gpt-4o=qwen-3")
    assert (a.may_serve(model), a.name_of(model)) == (serves, called)


def test_one_that_told_its_models_serves_these_and_one_that_did_not_any() -> None:
    a = backend()
    assert a.may_serve("m")
    a.server = Server("vllm", models=("n",))
    assert not a.may_serve("m")


def test_its_weight_is_the_configurations_unless_an_administrator_made_it_another() -> None:
    a = backend(",weight=2")
    assert a.share == 2.0
    a.weight = 0.5
    assert a.share == 0.5
