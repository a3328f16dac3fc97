"""What the demo holds against the servers' ledger, and what it makes of a session's traces."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import numpy as np

from adapters.scripts.asked import read
from adapters.scripts.speech import Speech, say
from gateway.client import Choice, Trace
from gateway.demo.captured import Captured
from gateway.scripted import Call

STARTED = datetime(2026, 11, 20, 8, tzinfo=UTC)


def trace(turn: int, prompt: tuple[int, ...], speech: Speech, **different: object) -> Trace:
    choice = Choice(0, np.array(speech.ids, np.int32), np.array(speech.logprobs, np.float64))
    fields = {"status": "ok", "fidelity": "exact", "logprobs_fidelity": "exact", "choices": (choice,)} | different
    ids = np.array(prompt, np.int32)
    return Trace(f"t{turn}", "s", started_at=STARTED, turn=turn, prompt_token_ids=ids, **fields)  # type: ignore[arg-type]


def call(speech: Speech) -> Call:
    body = json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode()
    return Call("POST", "/v1/chat/completions", (), body, 0.0, asked=read("chat", body, {}), speeches=(speech,))


def prompt_of(one: Call) -> tuple[int, ...]:
    assert one.asked is not None
    return one.asked.prompts[0]


YES, NO = say("yes"), say("no")


def test_turns_that_extend_each_other_are_one_sequence() -> None:
    session = Captured("s", "e", (trace(0, (1, 2), YES), trace(1, (1, 2, *YES.ids, 3), NO)))
    assert session.unbroken
    given = [token_id for token_id, sampled in session.sequence if not sampled]
    sampled = [token_id for token_id, sampled in session.sequence if sampled]
    assert given == [1, 2, 3]
    assert sampled == [*YES.ids, *NO.ids]


def test_a_turn_that_does_not_extend_the_last_one_is_a_defect() -> None:
    first, second = call(YES), call(NO)
    session = Captured("s", "e", (trace(0, prompt_of(first), YES), trace(1, prompt_of(second), NO)))
    assert not session.unbroken
    assert session.defects([first, second]) == ["e: the turns are not one sequence of tokens"]


def test_a_trace_that_is_the_servers_call_has_no_defect() -> None:
    asked = call(YES)
    assert Captured("s", "e", (trace(0, prompt_of(asked), YES),)).defects([asked]) == []


def test_other_tokens_than_the_server_sampled_are_a_defect() -> None:
    asked = call(YES)
    assert Captured("s", "e", (trace(0, prompt_of(asked), NO),)).defects([asked]) == [
        "e turn 0: other tokens or logprobs than the server sampled"
    ]


def test_a_doubtful_trace_is_a_defect_with_its_reason() -> None:
    asked = call(YES)
    doubtful = trace(0, prompt_of(asked), YES, fidelity="partial", fidelity_reason="one id is missing")
    assert Captured("s", "e", (doubtful,)).defects([asked]) == ["e turn 0: fidelity is partial (one id is missing)"]


def test_a_call_without_a_trace_is_a_defect() -> None:
    assert Captured("s", "e", ()).defects([call(YES)]) == ["e: 1 calls reached the server and 0 traces are stored"]


def test_a_trace_without_choices_is_shown_as_nothing_sampled() -> None:
    failed = Trace("t0", "s", "backend_error", "none", STARTED, turn=0)
    session = Captured("s", "e", (failed,))
    assert session.sequence == ()
    assert session.defects([call(YES)]) == ["e turn 0: status is backend_error"]
