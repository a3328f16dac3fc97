from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from adapters.schema import RecordedRequest
from storage.samples.agents import agent_of, user_agent
from tests.storage.samples.examples import SESSION, turn


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
