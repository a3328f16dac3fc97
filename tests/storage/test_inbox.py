from __future__ import annotations

import asyncio
import threading

import pytest

from storage.errors import CannotRecord
from storage.inbox import Inbox
from storage.jobs import Begin, Finish, Job
from tests.storage.examples import call

# What is not woken up stays away until the test run gives it up.
FOR_EVER = 3600.0


def never_old_enough(job: Begin) -> Begin:
    """As young as no wait makes it old."""
    job.queued_at += FOR_EVER
    return job


def begin(size: int = 100) -> Begin:
    return Begin(size, call("s"), None)


@pytest.fixture
def ended() -> Finish:
    loop = asyncio.new_event_loop()
    job = Finish(100, call("s"), loop.create_future())
    loop.close()
    return job


def test_what_is_queued_is_taken_in_its_order(ended: Finish) -> None:
    inbox = Inbox(10_000)
    jobs: list[Job] = [begin(), begin(), ended]
    for job in jobs:
        inbox.put(job)
    assert inbox.take(timeout=1) == jobs
    assert (inbox.queued, inbox.queued_bytes) == (3, 300)
    inbox.settle(jobs)
    assert (inbox.queued, inbox.queued_bytes, inbox.oldest_ms) == (0, 0, None)


def test_an_end_takes_its_begin_along_and_waits_for_nothing(ended: Finish) -> None:
    inbox = Inbox(10_000)
    began = never_old_enough(begin())
    inbox.put(began)
    threading.Timer(0.005, inbox.put, [ended]).start()
    assert inbox.take(FOR_EVER) == [began, ended]


def test_a_begin_alone_waits_a_moment_and_no_longer() -> None:
    inbox = Inbox(10_000)
    inbox.put(never_old_enough(begin()))
    assert inbox.take(timeout=0.05) == []
    inbox = Inbox(10_000)
    inbox.put(begin())
    assert len(inbox.take(FOR_EVER)) == 1


def test_nothing_queued_is_nothing_taken() -> None:
    inbox = Inbox(10_000)
    assert inbox.take(timeout=0.01) == []
    assert not inbox.ended


def test_the_end_is_seen_behind_all_that_was_queued() -> None:
    inbox = Inbox(10_000)
    inbox.put(begin())
    inbox.end()
    assert len(inbox.take(timeout=5)) == 1
    assert inbox.ended


def test_calls_begin_only_while_there_is_room_for_ends(ended: Finish) -> None:
    inbox = Inbox(1_000)
    inbox.put(begin(700))
    with pytest.raises(CannotRecord, match="700 bytes wait"):
        inbox.put(begin(100))
    inbox.put(ended)
    with pytest.raises(CannotRecord):
        inbox.put(begin(1))


def test_a_young_begin_stays_while_others_calls_end(ended: Finish) -> None:
    inbox = Inbox(10_000)
    young, ending = Begin(100, call("other"), None), begin()
    for job in (young, ending, ended):
        inbox.put(job)
    assert inbox.take(timeout=5) == [ending, ended]
    inbox.settle([ending, ended])
    assert inbox.queued == 1
    assert inbox.take(timeout=5) == [young]


def test_a_begin_is_soon_taken_from_a_writer_that_sleeps() -> None:
    inbox = Inbox(10_000)
    threading.Timer(0.2, inbox.put, [begin()]).start()
    assert len(inbox.take(FOR_EVER)) == 1
