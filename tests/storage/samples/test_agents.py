from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.schema import RecordedRequest, Usage
from storage.samples.agents import AgentCalls, agent_of, agents_of, caller_of, user_agent
from tests.storage.samples.examples import SESSION, built, codes, rows, turn

# What each harness tells of its main agent, of that one's sub-agent, and of a sub-agent of the sub-agent.
HARNESSES: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    "claude-code": (
        {"session_id": "s-1"},
        {"session_id": "s-1", "agent_id": "a-1"},
        {"session_id": "s-1", "agent_id": "a-2", "parent_id": "a-1"},
    ),
    "codex": (
        {"session_id": "s-1", "agent_id": "s-1"},
        {"session_id": "s-1", "agent_id": "a-1", "parent_id": "s-1", "kind": "collab_spawn"},
        {"session_id": "s-1", "agent_id": "a-2", "parent_id": "a-1", "kind": "collab_spawn"},
    ),
    "opencode": (
        {"session_id": "s-1"},
        {"session_id": "a-1", "parent_id": "s-1"},
        {"session_id": "a-2", "parent_id": "a-1"},
    ),
}


@pytest.mark.parametrize(
    ("metadata", "harness", "headers", "agent"),
    [
        ({"agent": "searcher"}, {"name": "claude-code"}, {"user-agent": "claude-cli/2.1"}, "searcher"),
        ({"agent": ""}, {"name": "claude-code"}, {"user-agent": "claude-cli/2.1"}, "claude-code"),
        ({"agent": 7}, {"name": None}, {"User-Agent": "claude-cli/2.1 (external)"}, "claude-cli"),
        ({}, {}, {"user-agent": "/1.0"}, None),
        ({}, {}, {}, None),
    ],
)
def test_the_surest_word_for_who_called_counts(
    metadata: dict[str, Any], harness: dict[str, Any], headers: dict[str, str], agent: str | None
) -> None:
    call = replace(turn(0, [1], [2]), request=RecordedRequest(b"{}", headers), harness=harness)
    assert agent_of(replace(SESSION, metadata=metadata), call) == agent


def test_a_user_agent_is_found_by_any_spelling_of_its_header() -> None:
    for name in ("user-agent", "User-Agent"):
        call = replace(turn(0, [1], [2]), request=RecordedRequest(b"{}", {name: "SDK/1.0"}))
        assert user_agent(call) == "SDK/1.0"
    assert user_agent(turn(0, [1], [2])) == ""


@pytest.mark.parametrize("harness", HARNESSES)
def test_an_agent_has_an_id_and_a_parent_whatever_its_harness_names(harness: str) -> None:
    callers = [caller_of(turn(0, [1], [2], harness={"name": harness, **told})) for told in HARNESSES[harness]]
    assert [(each.agent_id, each.parent_agent_id) for each in callers if each] == [
        ("s-1", None),
        ("a-1", "s-1"),
        ("a-2", "a-1"),
    ]


@pytest.mark.parametrize("told", [{}, {"name": "qwen-code"}, {"session_id": ""}, {"session_id": 7, "parent_id": "x"}])
def test_of_who_names_nothing_nothing_is_known(told: dict[str, Any]) -> None:
    assert caller_of(turn(0, [1], [2], harness=told)) is None


@pytest.mark.parametrize("harness", HARNESSES)
def test_each_row_says_whose_it_is_and_those_of_sub_agents_may_be_left_out(harness: str) -> None:
    main, spawned, deeper = HARNESSES[harness]
    calls = (
        turn(0, [1], [2], harness=main),
        turn(1, [10], [11], harness=spawned),
        turn(2, [20], [21], harness=deeper),
        turn(3, [1, 2, 3], [4], harness=main),
    )
    told = [(sample.agent_id, sample.parent_agent_id, sample.weight) for sample in built(*calls)]
    assert told == [("s-1", None, 1 / 3), ("a-1", "s-1", 1 / 3), ("a-2", "a-1", 1 / 3)]
    assert rows(*calls, agents="main") == ["1 [2] 3 [4]"]
    assert [sample.weight for sample in built(*calls, agents="main")] == [1.0]


def test_what_a_sub_agent_lost_is_no_loss_where_its_calls_are_not_wanted() -> None:
    main, spawned, _ = HARNESSES["codex"]
    calls = turn(0, [1], [2], harness=main), turn(1, [10], [11], harness=spawned, fidelity="partial")
    assert [codes(sample) for sample in built(*calls)] == [["session_incomplete", "single_call"]]
    assert [codes(sample) for sample in built(*calls, agents="main")] == [["single_call"]]


def test_a_sessions_calls_are_told_by_agent() -> None:
    main, spawned, _ = HARNESSES["codex"]
    calls = [
        turn(3, [1], [2], harness=main),
        turn(1, [1], [2], harness=main, purpose="aux", usage=Usage(1, 5)),
        turn(2, [1], [2, 3], harness=spawned, usage=Usage(1, 2)),
        turn(4, [1], [2]),
    ]
    assert agents_of(calls) == (
        AgentCalls("s-1", None, None, 2, 1, 5, ("t1", "t3")),
        AgentCalls("a-1", "s-1", "collab_spawn", 1, 0, 2, ("t2",)),
        AgentCalls(None, None, None, 1, 0, 0, ("t4",)),
    )
