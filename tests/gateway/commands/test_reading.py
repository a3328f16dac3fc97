"""`sessions` and `traces` as a person sees them, over a gateway's answers."""

import io
import json

import httpx
import pytest
from rich.console import Console

from gateway.commands.reading import Reader
from gateway.commands.remote import CannotRead, Remote
from gateway.commands.screen import Screen

SESSIONS = {
    "items": [
        {
            "session_id": "math-17",
            "status": "finished",
            "created_at": "2026-11-20T08:00:00.123456Z",
            "run_id": "run-1",
            "group_id": None,
            "backend": "a",
            "metadata": {"more": "than the table shows"},
        }
    ],
    "next": "c2",
    "complete": False,
}
TRACE = {
    "trace_id": "0197",
    "session_id": "math-17",
    "status": "ok",
    "fidelity": "partial",
    "fidelity_reason": "no prompt ids",
    "logprobs_fidelity": "none",
    "logprobs_reason": "the engine gave none",
    "started_at": "2026-11-20T08:00:00Z",
    "turn": 0,
    "engine": "vllm",
    "plan": "streamed",
    "duration_ms": 12.6,
    "prompt_token_ids": None,
    "choices": [
        {"token_ids": [7, 8, 9], "text": "[bold]no markup", "finish_reason": "stop"},
        {"token_ids": [], "finish_reason": "length"},
    ],
}


class Api:
    """What one gateway answers, and what it was asked."""

    def __init__(self, answer: object, status: int = 200) -> None:
        self.answer = answer
        self.status = status
        self.asked: list[httpx.Request] = []
        self.shown = io.StringIO()
        self.noted = io.StringIO()

    def handle(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        content = self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()
        return httpx.Response(self.status, content=content)

    def reader(self, *, key: str | None = None, as_json: bool = False, width: int | None = 160) -> Reader:
        """On a terminal of that width; None is a pipe."""
        console = Console(file=self.shown, width=width, force_terminal=width is not None, color_system=None)
        screen = Screen(console, Console(file=self.noted, width=20), as_json)
        return Reader(Remote("http://gateway", key, httpx.MockTransport(self.handle)), screen)

    @property
    def lines(self) -> list[str]:
        return [" ".join(line.split()) for line in self.shown.getvalue().splitlines()]


def test_sessions_are_a_table_that_says_when_there_is_more_and_when_something_is_missing() -> None:
    api = Api(SESSIONS)
    api.reader(key="sk-admin").sessions({"run_id": "run-1", "limit": 20})
    assert api.lines == [
        "session status created run group backend",
        "math-17 finished 2026-11-20 08:00:00 run-1 a",
    ]
    assert api.noted.getvalue().splitlines() == [
        "There is more, and newer: --cursor c2",
        "Not complete yet: a gateway still has traces in its spool.",
    ]
    [asked] = api.asked
    assert str(asked.url) == "http://gateway/api/sessions?run_id=run-1&limit=20"
    assert asked.headers["authorization"] == "Bearer sk-admin"


def test_traces_are_a_table_in_which_ids_that_were_not_told_are_not_none() -> None:
    api = Api({"items": [TRACE], "next": None, "complete": True})
    api.reader().traces({"session_id": "math-17", "limit": 20})
    assert api.lines == [
        "trace session turn engine plan status fidelity prompt sampled ms",
        "0197 math-17 0 vllm streamed ok partial – 3 + 0 13",
    ]
    [asked] = api.asked
    assert "request" not in asked.url.params["fields"].split(",")
    assert "authorization" not in asked.headers


def test_an_id_is_whole_on_a_narrow_terminal_and_other_columns_make_room_for_it() -> None:
    long_id = "01a1fee8-a981-7365-9ca7-b92fd1c3bbd1"
    api = Api({"items": [{**TRACE, "trace_id": long_id, "session_id": long_id}], "next": None, "complete": True})
    api.reader(width=80).traces({})
    assert api.lines == [
        "trace turn status fidelity prompt sampled",
        f"{long_id} 0 ok partial – 3 + 0",
    ]
    assert max(map(len, api.shown.getvalue().splitlines())) <= 80
    assert "No room for: session, engine, plan, ms." in api.noted.getvalue()


def test_an_id_is_whole_on_a_terminal_that_is_narrower_than_it() -> None:
    api = Api({"items": [{**TRACE, "trace_id": "0197" * 9}], "next": None, "complete": True})
    api.reader(width=20).traces({})
    assert api.lines == ["trace", "0197" * 9]


def test_into_a_pipe_every_trace_is_one_line_of_tabs_and_notes_go_elsewhere() -> None:
    items = [{**TRACE, "session_id": "s" * 100, "turn": turn} for turn in (0, 1)]
    api = Api({"items": items, "next": "c2", "complete": True})
    api.reader(width=None).traces({})
    header, *lines = [line.split("\t") for line in api.shown.getvalue().splitlines()]
    assert header == ["trace", "session", "turn", "engine", "plan", "status", "fidelity", "prompt", "sampled", "ms"]
    assert lines == [
        ["0197", "s" * 100, turn, "vllm", "streamed", "ok", "partial", "–", "3 + 0", "13"] for turn in ("0", "1")
    ]
    assert "--cursor c2" in api.noted.getvalue()


@pytest.mark.parametrize("width", [None, 160])
def test_what_a_label_holds_breaks_no_line_and_reaches_no_terminal(width: int | None) -> None:
    session = {**SESSIONS["items"][0], "run_id": "a\tb\nc\x1b[31m [bold] :smile:"}  # type: ignore[index]
    api = Api({"items": [session], "next": None, "complete": True})
    api.reader(width=width).sessions({})
    assert len(api.lines) == 2
    assert "a\ufffdb\ufffdc\ufffd[31m [bold] :smile:" in api.lines[1]


def test_no_traces_are_a_header_alone() -> None:
    api = Api({"items": [], "next": None, "complete": True})
    api.reader().traces({})
    assert len(api.lines) == 1


def test_a_trace_is_shown_with_its_ids_and_why_they_are_not_surer() -> None:
    api = Api(TRACE)
    api.reader().trace("0197")
    for line in (
        "fidelity partial: no prompt ids",
        "logprobs none: the engine gave none",
        "prompt_token_ids not told",
        "choice 0 finish_reason stop",
        "token_ids 3: 7 8 9",
        "text [bold]no markup",
        "choice 1 finish_reason length",
    ):
        assert line in api.lines


def test_what_a_model_said_is_shown_line_by_line_and_commands_no_terminal() -> None:
    said = {"token_ids": [7], "text": "One:\n\t1\xa0%\x1b]0;title\x07", "finish_reason": "stop"}
    api = Api({**TRACE, "choices": [said]})
    api.reader().trace("0197")
    assert api.lines[-2:] == ["text One:", "1 %\ufffd]0;title\ufffd"]


def test_json_is_the_answer_itself() -> None:
    api = Api(SESSIONS)
    api.reader(as_json=True).sessions({})
    assert json.loads(api.shown.getvalue()) == SESSIONS


def test_an_id_stays_one_segment_of_the_path() -> None:
    api = Api({})
    api.reader(as_json=True).session("../admin?x=1")
    assert api.asked[0].url.raw_path == b"/api/sessions/..%2Fadmin%3Fx%3D1"


@pytest.mark.parametrize(
    ("status", "answer", "says"),
    [
        (401, {"detail": "No key was sent."}, "No key was sent. Here: by ROLLOUT_GATEWAY_API_KEY"),
        (404, {"title": "Not Found", "detail": "There is no trace 'x'."}, "answers 404: There is no trace 'x'."),
        (502, b"<html>bad gateway</html>", "answers 502: not an answer of a rollout-gateway"),
        (200, b"<html>another server</html>", "not an answer of a rollout-gateway"),
        (200, {"items": 7}, "not an answer of a rollout-gateway"),
    ],
)
def test_what_went_wrong_is_said(status: int, answer: object, says: str) -> None:
    with pytest.raises(CannotRead) as caught:
        Api(answer, status).reader().traces({})
    assert says in str(caught.value)


def test_that_no_gateway_is_there_is_said() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused", request=request)

    nowhere = Console(file=io.StringIO())
    reader = Reader(Remote("http://gateway", None, httpx.MockTransport(refuse)), Screen(nowhere, nowhere))
    with pytest.raises(CannotRead, match="no gateway answers at http://gateway: Connection refused; --url says where"):
        reader.traces({})
