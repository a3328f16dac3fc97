"""The ledger finds what is planted: a check that cannot fail shows nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from tests.faults import canary
from tests.faults.ledger import NOTHING, Allowed, Findings, Ledger
from tests.faults.records import Choice, Emission, Heard, Row, WeightSpan


class Run:
    """Two sessions of two calls each, as they should be."""

    def __init__(self) -> None:
        self.emissions = [emission(1, 10), emission(2, 11, after=1), emission(3, 12), emission(4, 13, after=3)]
        self.heard = [
            heard(1, "a"),
            heard(2, "a", continues=1),
            heard(3, "b", stream=False),
            heard(4, "b", continues=3),
        ]
        self.rows = [row(self.emissions[at], *of) for at, of in enumerate([("a", 0), ("a", 1), ("b", 0), ("b", 1)])]

    def findings(self, allowed: Allowed = NOTHING) -> Findings:
        return Ledger(self.emissions, self.heard, self.rows).findings(allowed)


def emission(number: int, serial: int, *, after: int | None = None) -> Emission:
    before = () if after is None else (canary.asked_id(after), *canary.sampled_ids(after, 3))
    speech = canary.answer(number, 3, serial)
    prompt = (*before, canary.asked_id(number))
    logprobs = canary.logprobs(serial, 3)
    spans = (("7", 0, 3),)
    return Emission(number, serial, prompt, speech.ids, logprobs, speech.text("content"), spans, told=3)


def heard(number: int, session: str, *, continues: int | None = None, stream: bool = True) -> Heard:
    text = canary.answer(number, 3, 0).text("content")
    if stream:
        chunks = [{"choices": [{"delta": {"content": text}}]}, {"choices": [{"delta": {}, "finish_reason": "stop"}]}]
        body = b"".join(b"data: " + msgspec.json.encode(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    else:
        body = msgspec.json.encode({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]})
    headers = {"x-trace-id": f"t{number}"}
    return Heard(number, session, continues, status=200, headers=headers, body=body, end="whole", stream=stream)


def row(said: Emission, session: str, turn: int) -> Row:
    choice = Choice(0, said.ids, said.logprobs, said.text, (WeightSpan("7", 0, 3),))
    return Row(
        trace_id=f"t{said.number}",
        session_id=session,
        turn=turn,
        request_id=str(said.number),
        status="ok",
        started_at="2026-11-21T12:00:00Z",
        parent_trace_id=f"t{said.number - 1}" if turn else None,
        weight_version="7",
        fidelity="exact",
        logprobs_fidelity="exact",
        gateway_id="g",
        prompt_token_ids=said.prompt,
        choices=(choice,),
    )


def _row(at: int, **changes: Any) -> Callable[[Run], None]:
    def plant(run: Run) -> None:
        run.rows[at] = msgspec.structs.replace(run.rows[at], **changes)

    return plant


def _choice(at: int, **changes: Any) -> Callable[[Run], None]:
    def plant(run: Run) -> None:
        choice = msgspec.structs.replace(run.rows[at].choices[0], **changes)
        run.rows[at] = msgspec.structs.replace(run.rows[at], choices=(choice,))

    return plant


def _cut(at: int, **changes: Any) -> Callable[[Run], None]:
    """A trace that ended early, with fewer tokens than were said."""

    def plant(run: Run) -> None:
        run.heard[at] = replace(run.heard[at], body=b"", end="broken")
        run.emissions[at].told = 2
        ids, logprobs = changes.pop("ids", run.emissions[at].ids[:2]), run.emissions[at].logprobs[:2]
        choice = Choice(0, ids, logprobs[: len(ids)], "", None)
        told = {"status": "backend_error", "fidelity": "partial", "choices": (choice,)} | changes
        run.rows[at] = msgspec.structs.replace(run.rows[at], **told)
        run.rows[at + 1 :] = run.heard[at + 1 :] = []

    return plant


IDS = canary.sampled_ids(2, 3)
PLANTED: dict[str, tuple[str, Callable[[Run], None]]] = {
    "a trace that is gone": ("lost", lambda run: run.rows.pop()),
    "a trace under another call's number": ("lost", _row(1, request_id="1")),
    "one call twice": ("dup", lambda run: run.rows.append(msgspec.structs.replace(run.rows[3], trace_id="t5", turn=2))),
    "one turn twice": ("dup", _row(1, turn=0)),
    "a wrong id": ("wrong", _choice(1, token_ids=(IDS[0], IDS[1] + 1, IDS[2]))),
    "ids in another order": ("wrong", _choice(1, token_ids=(IDS[1], IDS[0], IDS[2]))),
    "an id too few": ("wrong", _choice(1, token_ids=IDS[:2], logprobs=canary.logprobs(11, 2))),
    "a token of another session": ("wrong", _choice(1, token_ids=(*IDS[:2], canary.sampled_ids(3, 1)[0]))),
    "another session's token in a prompt": ("wrong", _row(1, prompt_token_ids=(canary.asked_id(3),))),
    "a prompt that was not sent": ("wrong", _row(1, prompt_token_ids=(canary.asked_id(2),))),
    "logprobs of another try": ("wrong", _choice(1, logprobs=canary.logprobs(12, 3))),
    "a logprob moved by one": ("wrong", _choice(1, logprobs=(*canary.logprobs(11, 3)[1:], -1.0))),
    "another text": ("wrong", _choice(1, text="something else")),
    "the other session": ("wrong", _row(1, session_id="b", turn=2)),
    "another id than its agent was told": ("wrong", _row(3, trace_id="t9")),
    "turns that fall": ("wrong", _row(0, turn=5)),
    "another parent": ("wrong", _row(1, parent_trace_id="t3")),
    "no parent": ("wrong", _row(3, parent_trace_id=None)),
    "a parent of a session's first": ("wrong", _row(2, parent_trace_id="t1")),
    "other weights": ("wrong", _row(2, weight_version="8")),
    "spans of other weights": ("wrong", _choice(2, weight_versions=(WeightSpan("8", 0, 3),))),
    "a call that still runs": ("wrong", _row(3, status="running")),
    "an error where the agent has an answer": ("wrong", _row(3, status="backend_error")),
    "less sure than it could be": ("wrong", _row(3, fidelity="partial")),
    "a call that nobody made": ("wrong", lambda run: run.rows.append(row(emission(9, 20), "c", 0))),
    "an answer that nobody gave": ("wrong", lambda run: run.emissions.pop()),
    "an answer that is no JSON": ("wrong", lambda run: setattr(run.heard[2], "body", b"{")),
    "a part that says exact": ("wrong", _cut(3, fidelity="exact")),
    "a part with tokens that never left": ("wrong", _cut(3, ids=canary.sampled_ids(4, 3))),
}


def test_a_sound_run_has_no_findings() -> None:
    assert Run().findings() == Findings()


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_found_and_is_called_by_its_name(planted: str) -> None:
    kind, plant = PLANTED[planted]
    run = Run()
    plant(run)
    assert getattr(run.findings(), kind)


def test_a_part_of_what_left_is_right_where_the_answer_broke_off() -> None:
    run = Run()
    _cut(3)(run)
    assert run.findings() == Findings()


def test_an_agent_that_was_told_the_end_has_a_whole_answer_though_its_connection_broke_after_it() -> None:
    run = Run()
    run.heard[3] = replace(run.heard[3], body=run.heard[3].body.removesuffix(b"data: [DONE]\n\n"), end="broken")
    assert run.findings() == Findings()
    run.rows.pop()
    assert run.findings().lost


def test_a_kill_excuses_calls_that_were_not_answered_and_no_others() -> None:
    run = Run()
    run.heard[3] = replace(run.heard[3], body=b"", end="broken")
    run.rows.pop()
    assert run.findings().lost
    assert run.findings(Allowed(untraced=True)) == Findings()
    run.heard[3] = heard(4, "b", continues=3)
    assert run.findings(Allowed(untraced=True)).lost


def test_calls_of_a_gateway_that_nobody_has_missed_yet_may_be_running() -> None:
    run = Run()
    run.heard[3] = replace(run.heard[3], body=b"", end="broken")
    run.rows[3] = msgspec.structs.replace(run.rows[3], status="running", choices=())
    assert run.findings(Allowed(running_of={"g"})) == Findings()
    assert run.findings(Allowed(running_of={"other"})).wrong


def test_spools_that_drain_beside_each_other_excuse_the_order_and_an_unknown_parent_and_no_wrong_one() -> None:
    run = Run()
    _row(0, turn=5)(run)
    _row(1, parent_trace_id=None)(run)
    assert run.findings(Allowed(order=False)) == Findings()
    _row(1, parent_trace_id="t3")(run)
    assert run.findings(Allowed(order=False)).wrong
