"""`samples` as a person sees it, over a gateway's answers."""

from __future__ import annotations

import base64
import io
import json

import httpx
import numpy as np
import pytest
from rich.console import Console

from gateway.commands.remote import CannotRead, Remote
from gateway.commands.samples import Samples
from gateway.commands.screen import Screen

ROW = {
    "session_id": "math-17",
    "branch": 0,
    "token_ids": base64.b64encode(np.arange(12, dtype="<i4").tobytes()).decode(),
    "mask": base64.b64encode(bytes([0] * 9 + [1] * 3)).decode(),
    "logprobs": "",
    "weight": 1 / 3,
    "reward": 0.7,
    "run_id": "run-1",
    "group_id": None,
    "findings": [],
    "metadata": {"more": "than the table shows"},
}
FINDINGS = [{"code": "single_call", "fatal": False}, {"code": "logprob_missing", "fatal": True}]
PAGE = {
    "items": [ROW, {**ROW, "branch": 1, "reward": None, "findings": FINDINGS}],
    "next": "c2",
    "complete": False,
}


class Api:
    """What one gateway answers, and what it was asked."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked: list[httpx.Request] = []
        self.shown = io.StringIO()
        self.noted = io.StringIO()

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return httpx.Response(200, content=json.dumps(self.answer))

    def samples(self, *, as_json: bool = False, width: int | None = 160) -> Samples:
        console = Console(file=self.shown, width=width, force_terminal=width is not None, color_system=None)
        remote = Remote("http://gateway", "sk-admin", httpx.MockTransport(self.handle))
        return Samples(remote, Screen(console, Console(file=self.noted, width=20), as_json))


def test_samples_are_a_table_with_what_is_trained_and_what_was_found() -> None:
    api = Api(PAGE)
    api.samples().show(None, {"run_id": "run-1", "limit": "20"})
    assert [" ".join(line.split()) for line in api.shown.getvalue().splitlines()] == [
        "session branch run group tokens trained reward weight findings",
        "math-17 0 run-1 12 3 0.7 0.333",
        "math-17 1 run-1 12 3 – 0.333 single_call logprob_missing!",
    ]
    assert api.noted.getvalue().splitlines() == [
        "There is more, or will be: --cursor c2",
        "Not complete yet: a gateway still has traces in its spool.",
    ]
    [asked] = api.asked
    assert str(asked.url) == "http://gateway/api/samples?run_id=run-1&limit=20&shape=packed"
    assert asked.headers["authorization"] == "Bearer sk-admin"


def test_a_session_is_asked_for_by_one_segment_of_the_path() -> None:
    api = Api({"items": [], "next": None, "complete": True})
    api.samples(width=None).show("../x", {})
    assert api.asked[0].url.raw_path == b"/api/sessions/..%2Fx/samples?shape=packed"
    assert api.shown.getvalue().split() == [
        "session",
        "branch",
        "run",
        "group",
        "tokens",
        "trained",
        "reward",
        "weight",
        "findings",
    ]
    assert api.noted.getvalue() == ""


def test_json_is_the_answer_itself() -> None:
    api = Api(PAGE)
    api.samples(as_json=True).show(None, {})
    assert json.loads(api.shown.getvalue()) == PAGE
    assert "shape" not in api.asked[0].url.params


def test_an_answer_of_something_else_is_said_to_be_one() -> None:
    with pytest.raises(CannotRead, match="not an answer of a rollout-gateway"):
        Api({"items": 7}).samples().show(None, {})
