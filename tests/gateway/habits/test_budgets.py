"""What is left of a session's budget, whoever counts: this process, the one before it, or several calls at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import Raw

from adapters.request import CanonicalRequest
from adapters.schema import Choice, RecordedRequest, Session, Status, Trace
from adapters.schema import Usage as Counted
from adapters.token_ids import TokenIds
from gateway.api import limits
from gateway.habits.budgets import Budgets, limited
from gateway.habits.tally import Budget, Tally
from gateway.patience import Patience
from gateway.refusals import BudgetSpent
from storage.errors import Unavailable
from storage.usage import Usage

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
ASKED = CanonicalRequest("chat", {"max_tokens": Raw(b"50")}, "m")


class Stored:
    """A store of one session's traces, that can be away."""

    def __init__(self, *traces: Trace) -> None:
        self.found: list[Trace] = list(traces)
        self.reads = 0
        self.away = False

    async def usage(self, session_id: str, attempt: int) -> Usage:
        if self.away:
            raise Unavailable("database is locked")
        self.reads += 1
        await asyncio.sleep(0)
        counted, running = Tally(), [trace.trace_id for trace in self.found if trace.status == "running"]
        for each in self.found:
            if each.trace_id not in running and each.attempt == attempt:
                counted.add(each)
        sampled = counted.completion_tokens
        prompt = counted.total_tokens - sampled
        return Usage(counted.calls, prompt, sampled, counted.first_call_at, frozenset(running))


def session(**budgets: float | None) -> Session:
    return Session("s1", NOW, budgets=budgets)


def trace(trace_id: str, status: Status = "ok", prompt: int = 100, sampled: int = 10, **more: Any) -> Trace:
    usage = Counted(prompt_tokens=prompt, completion_tokens=sampled)
    return Trace(trace_id, "s1", "chat", status, NOW, RecordedRequest(None), **{"usage": usage, **more})


async def admitted(budgets: Budgets, trace_id: str, session: Session) -> int:
    """The limit that the call goes out with."""
    admission = await budgets.admit(session, trace_id, ASKED)
    return int(bytes(admission.request.fields["max_tokens"]))


def test_what_can_be_set_is_what_is_kept_to() -> None:
    assert tuple(limits.Budgets.model_fields) == Budget.__slots__


async def test_calls_are_counted_as_they_come_and_the_one_beyond_is_told_so() -> None:
    budgets = Budgets(Stored())
    for number in range(3):
        await admitted(budgets, f"t{number}", session(calls=3))
        budgets.ended(trace(f"t{number}"))
    with pytest.raises(
        BudgetSpent, match="This session's budget of 3 calls is spent, so the model was not asked"
    ) as spent:
        await admitted(budgets, "t3", session(calls=3))
    assert (spent.value.status, spent.value.error.code) == (400, "budget_exceeded")
    assert spent.value.headers == [("x-should-retry", "false")]


async def test_calls_that_come_together_are_all_counted() -> None:
    stored = Stored(trace("t0"), trace("t1"))
    budgets = Budgets(stored)
    ends = await asyncio.gather(
        *(admitted(budgets, f"t{number}", session(calls=5)) for number in range(2, 9)), return_exceptions=True
    )
    assert [isinstance(end, BudgetSpent) for end in ends].count(False) == 3


async def test_what_earlier_processes_recorded_counts_and_is_read_once() -> None:
    stored = Stored(*(trace(f"t{number}") for number in range(4)))
    budgets = Budgets(stored)
    await admitted(budgets, "t4", session(calls=5))
    budgets.ended(trace("t4"))
    with pytest.raises(BudgetSpent):
        await admitted(budgets, "t5", session(calls=5))
    assert stored.reads == 1


@pytest.mark.parametrize("status", ["backend_error", "interrupted", "rejected"])
async def test_a_call_that_failed_is_not_held_against_its_session(status: Status) -> None:
    budgets = Budgets(Stored(trace("t0", status, sampled=0)))
    await admitted(budgets, "t1", session(calls=1))
    budgets.ended(trace("t1", status, sampled=0))
    await admitted(budgets, "t2", session(calls=1))


async def test_aux_calls_are_no_steps_of_the_agents() -> None:
    budgets = Budgets(Stored(trace("t0", purpose="aux"), trace("t1", purpose="aux")))
    await admitted(budgets, "t2", session(calls=1))


async def test_sampled_tokens_are_counted_and_no_more_are_asked_for_than_are_left() -> None:
    budgets = Budgets(Stored(trace("t0", sampled=70)))
    assert await admitted(budgets, "t1", session(completion_tokens=100)) == 30
    budgets.ended(trace("t1", sampled=29))
    assert await admitted(budgets, "t2", session(completion_tokens=100)) == 1
    budgets.ended(trace("t2", sampled=1))
    with pytest.raises(BudgetSpent, match="100 sampled tokens"):
        await admitted(budgets, "t3", session(completion_tokens=100))


async def test_prompts_count_where_the_budget_is_of_all_tokens() -> None:
    budgets = Budgets(Stored(trace("t0", prompt=100, sampled=10)))
    assert await admitted(budgets, "t1", session(total_tokens=130)) == 20
    budgets.ended(trace("t1", prompt=110, sampled=20))
    with pytest.raises(BudgetSpent, match="130 tokens"):
        await admitted(budgets, "t2", session(total_tokens=130))


async def test_tokens_of_an_answer_that_was_cut_are_counted_by_their_ids() -> None:
    cut = replace(
        trace("t0", "client_disconnected"),
        usage=None,
        choices=(Choice(0, TokenIds([1, 2, 3])), Choice(1, TokenIds([4]))),
    )
    assert await admitted(Budgets(Stored(cut)), "t1", session(completion_tokens=10)) == 6


async def test_seconds_run_from_the_first_call_on_also_over_a_restart() -> None:
    now = NOW
    budgets = Budgets(Stored(), clock=lambda: now)
    await admitted(budgets, "t0", session(seconds=60))
    budgets.ended(trace("t0"))
    now = NOW + timedelta(seconds=59)
    await admitted(budgets, "t1", session(seconds=60))
    later = Budgets(Stored(trace("t0")), clock=lambda: NOW + timedelta(seconds=60))
    with pytest.raises(BudgetSpent, match="60 seconds"):
        await admitted(later, "t2", session(seconds=60))


async def test_a_budget_that_is_raised_lets_calls_through_again_and_a_null_bounds_nothing() -> None:
    budgets = Budgets(Stored(trace("t0")))
    with pytest.raises(BudgetSpent):
        await admitted(budgets, "t1", session(calls=1))
    await admitted(budgets, "t1", session(calls=2))
    await admitted(budgets, "t2", session(calls=None))


async def test_an_agent_that_does_not_take_the_end_for_one_gets_an_error() -> None:
    budgets = Budgets(Stored())
    gently = []
    for number in range(5):
        with pytest.raises(BudgetSpent) as spent:
            await admitted(budgets, f"t{number}", session(calls=0))
        gently.append(spent.value.gently)
    assert gently == [True, True, True, False, False]


async def test_what_cannot_be_counted_now_goes_on_and_says_so() -> None:
    stored = Stored(trace("t0"), trace("t1"))
    stored.away = True
    now = 0.0
    budgets = Budgets(stored, patience=Patience(clock=lambda: now))
    assert not (await budgets.admit(session(calls=1), "t2", ASKED)).counted
    with pytest.raises(BudgetSpent):  # What is seen here counts all the same.
        await budgets.admit(session(calls=1), "t3", ASKED)
    stored.away, now = False, 10.0
    assert (await budgets.admit(session(calls=4), "t3", ASKED)).counted
    with pytest.raises(BudgetSpent, match="4 calls"):
        await budgets.admit(session(calls=4), "t4", ASKED)


async def test_calls_that_land_on_changing_gateways_are_held_to_their_budget_exactly() -> None:
    stored = Stored()
    gateways = [Budgets(stored, shared=True), Budgets(stored, shared=True)]
    for number in range(5):
        budgets = gateways[number % 2]
        assert (await budgets.admit(session(calls=5), f"t{number}", ASKED)).counted
        stored.found.append(trace(f"t{number}"))
        budgets.ended(stored.found[-1])
    for budgets in gateways:
        with pytest.raises(BudgetSpent, match="5 calls"):
            await budgets.admit(session(calls=5), "t5", ASKED)


async def test_what_runs_elsewhere_counts_and_what_runs_here_counts_once() -> None:
    stored = Stored(trace("t0", "running"), trace("t1", "running"))
    here = Budgets(stored, shared=True)
    await here.admit(session(calls=3), "t2", ASKED)
    stored.found.append(trace("t2", "running"))
    with pytest.raises(BudgetSpent):
        await here.admit(session(calls=3), "t3", ASKED)
    await here.admit(session(calls=4), "t3", ASKED)


async def test_what_has_ended_here_counts_though_the_database_does_not_have_it_yet() -> None:
    stored = Stored()
    here = Budgets(stored, shared=True)
    await here.admit(session(calls=1), "t0", ASKED)
    here.ended(trace("t0"))
    with pytest.raises(BudgetSpent):
        await here.admit(session(calls=1), "t1", ASKED)


async def test_a_rollout_that_is_tried_again_has_its_whole_budget() -> None:
    stored = Stored(trace("t0"), trace("t1"))
    budgets = Budgets(stored)
    with pytest.raises(BudgetSpent):
        await budgets.admit(session(calls=2), "t2", ASKED)
    await budgets.admit(replace(session(calls=2), attempt=1), "t2", ASKED)


@pytest.mark.parametrize(
    ("endpoint", "fields", "n", "left", "limit"),
    [
        ("chat", {"max_tokens": 50}, 1, 49, 49),
        ("chat", {"max_tokens": 50}, 1, 50, 50),
        ("chat", {"max_tokens": 50}, 4, 100, 25),
        ("chat", {"max_tokens": 50}, 4, 3, 1),
        ("chat", {}, 1, 4096, 4096),
        # Beyond the end of the context an engine would refuse it.
        ("chat", {}, 1, 4097, None),
        ("chat", {"max_tokens": None}, 1, 7, 7),
        # It ends after 16 by itself.
        ("completions", {}, 1, 16, None),
        ("completions", {}, 1, 15, 15),
    ],
)
def test_a_limit_is_lowered_to_what_is_left(
    endpoint: Any, fields: dict[str, int | None], n: int, left: int, limit: int | None
) -> None:
    raw = {name: Raw(b"null" if value is None else b"%d" % value) for name, value in fields.items()}
    told = limited(CanonicalRequest(endpoint, raw, "m", n=n), left).fields.get("max_tokens")
    assert (None if told is None else int(bytes(told))) == limit
