"""`drift` as a person sees it, over a gateway's answers."""

from __future__ import annotations

import io
import json
from typing import Any

import httpx
import pytest
from rich.console import Console

from gateway.cli import main
from gateway.commands.drift import Drift
from gateway.commands.remote import Remote
from gateway.commands.screen import Screen

BREAK = {
    "trace_id": "0197",
    "turn": 4,
    "earlier_trace_id": "0196",
    "earlier_turn": 3,
    "earlier_index": 0,
    "position": 512,
    "region": "boundary",
    "cause": "stripped_reasoning",
    "detail": "the reasoning of call 3 was left out of the history",
    "window_start": 496,
    "earlier": {"token_ids": [1, 2], "text": "<think>\nI look.\x1b[31m", "differing": 8},
    "later": {"token_ids": [1, 3], "text": "[bold]It is sunny.", "differing": 0},
    "text_source": "record",
}
COUNTS: dict[str, Any] = {
    "calls": 5,
    "starts": 1,
    "extends": 3,
    "breaks": 1,
    "unjudged": 0,
    "exact_share": 0.75,
    "causes": {"stripped_reasoning": 1},
}
SESSION = {
    "session_id": "math-17",
    "run_id": "run-1",
    "counts": COUNTS,
    "calls": [{"trace_id": "0196", "broken": None}, {"trace_id": "0197", "broken": BREAK}],
}
AGENT = {
    "run_id": "run-1",
    "agent": "claude-cli",
    "sessions": 2,
    "counts": COUNTS,
    "examples": {"stripped_reasoning": {"session_id": "math-17", "broken": BREAK}},
}


class Gateway:
    """What a gateway answers, one answer a request, and what it was asked."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[httpx.Request] = []
        self.shown, self.noted = io.StringIO(), io.StringIO()

    def drift(self, *, as_json: bool = False) -> Drift:
        console = Console(file=self.shown, width=160, force_terminal=True, color_system=None)
        remote = Remote("http://gateway", None, httpx.MockTransport(self._handle))
        return Drift(remote, Screen(console, Console(file=self.noted), as_json))

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return httpx.Response(200, json=self.answers.pop(0))

    @property
    def lines(self) -> list[str]:
        return [" ".join(line.split()) for line in self.shown.getvalue().splitlines()]


def test_a_session_is_shown_break_by_break_with_both_texts() -> None:
    gateway = Gateway(SESSION)
    gateway.drift().session("math-17")
    assert gateway.lines == [
        "math-17: 5 calls, 3 of 4 extend what was sampled",
        "call 4 broke at token 512: the reasoning of call 3 was left out of the history (stripped_reasoning)",
        "before <think>⏎I look.\ufffd[31m",
        "now [bold]It is sunny.",
    ]
    assert gateway.asked[0].url.path == "/api/sessions/math-17/drift"


def test_a_session_that_nothing_was_to_extend_in_says_so() -> None:
    counts = {**COUNTS, "calls": 2, "extends": 0, "breaks": 0, "unjudged": 1}
    gateway = Gateway({**SESSION, "counts": counts, "calls": []})
    gateway.drift().session("math-17")
    assert gateway.lines == ["math-17: 2 calls, none of which repeats an earlier one, 1 can't be judged"]


def test_runs_are_a_table_of_all_pages_and_an_example_of_each_cause() -> None:
    more = {**AGENT, "counts": {**COUNTS, "causes": {"whitespace": 3}, "breaks": 3}, "examples": {}}
    gateway = Gateway(
        {"items": [AGENT], "sessions": 2, "next": "c2", "complete": True},
        {"items": [more, {**AGENT, "agent": None, "examples": {}}], "sessions": 2, "next": None, "complete": False},
    )
    gateway.drift().runs({"run_id": "run-1"})
    assert gateway.lines == [
        "run agent sessions calls extend breaks causes",
        "run-1 claude-cli 4 10 60.0% 4 whitespace 3, stripped_reasoning 1",
        "run-1 2 5 75.0% 1 stripped_reasoning 1",
        "",
        "stripped_reasoning, 1 of claude-cli, for example in math-17:",
        "call 4 broke at token 512: the reasoning of call 3 was left out of the history (stripped_reasoning)",
        "before <think>⏎I look.\ufffd[31m",
        "now [bold]It is sunny.",
    ]
    assert [str(request.url) for request in gateway.asked] == [
        "http://gateway/api/drift?run_id=run-1",
        "http://gateway/api/drift?run_id=run-1&cursor=c2",
    ]
    assert "Not complete yet" in gateway.noted.getvalue()


def test_json_is_the_answer_itself_with_all_pages_in_one() -> None:
    gateway = Gateway(SESSION)
    gateway.drift(as_json=True).session("math-17")
    assert json.loads(gateway.shown.getvalue()) == SESSION
    page = {"items": [AGENT], "sessions": 2, "next": None, "complete": True}
    gateway = Gateway({**page, "next": "c2"}, {"items": [], "sessions": 1, "next": None, "complete": True})
    gateway.drift(as_json=True).runs({})
    told = json.loads(gateway.shown.getvalue())
    assert (told["sessions"], told["complete"]) == (3, True)
    assert told["items"][0]["examples"]["stripped_reasoning"] == {"session_id": "math-17", "broken": BREAK}


def test_one_session_and_a_choice_of_sessions_exclude_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["drift", "math-17", "--run", "run-1"])
    assert left.value.code == 2
    assert "one session is shown whole" in capsys.readouterr().err
