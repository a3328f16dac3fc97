"""Work is claimed for a `with`: acknowledged at its end, given back by an exception."""

from __future__ import annotations

import time

import pytest

from gateway.client import ClaimExpired
from tests.gateway.client.harness import Reached
from tests.gateway.client.rollouts import rollout


def test_what_is_trained_on_is_not_offered_again(gateway: Reached) -> None:
    for number in range(3):
        rollout(gateway, f"s-{number}", run_id="r1")
    with gateway.client.claim(run="r1", limit=2) as work:
        assert work.session_ids == ("s-0", "s-1")
        assert [sample.session_id for sample in work.samples(style="merged")] == ["s-0", "s-1"]
    assert work.claim.status == "acknowledged"
    assert [sample.session_id for sample in gateway.client.samples(undelivered_to="default")] == ["s-2"]
    with gateway.client.claim(run="r1", consumer="eval") as work:
        assert work.session_ids == ("s-0",)


def test_an_exception_gives_the_work_back(gateway: Reached) -> None:
    rollout(gateway, "s-1", run_id="r1")
    with pytest.raises(RuntimeError), gateway.client.claim(run="r1"):
        raise RuntimeError("out of memory")
    with gateway.client.claim(run="r1") as work:
        assert work.session_ids == ("s-1",)


def test_without_work_there_is_nothing_to_acknowledge(gateway: Reached) -> None:
    with gateway.client.claim(run="r1", wait=0.1) as work:
        assert not work
        assert (work.session_ids, work.group_ids, list(work.samples())) == ((), (), [])
        work.extend(60)


def test_groups_are_claimed_when_they_are_complete(gateway: Reached) -> None:
    labels = {"run_id": "r1", "group_id": "g1", "group_size": 2}
    rollout(gateway, "s-1", **labels)
    with gateway.client.claim(run="r1", unit="group") as work:
        assert not work
    assert [(group.group_id, group.complete) for group in gateway.client.groups(run="r1")] == [("g1", False)]
    rollout(gateway, "s-2", **labels)
    (group,) = gateway.client.groups(run="r1", complete=True, wait=5)
    assert (group.size, group.sessions, group.finished, group.open) == (2, 2, 2, 0)
    with gateway.client.claim(run="r1", unit="group") as work:
        assert (work.group_ids, work.session_ids) == (("g1",), ("s-1", "s-2"))


def test_evaluations_are_claimed_where_they_are_asked_for(gateway: Reached) -> None:
    rollout(gateway, "s-1", run_id="r1", purpose="eval")
    with gateway.client.claim(run="r1") as work:
        assert not work
    with gateway.client.claim(run="r1", purpose=None) as work:
        assert work.session_ids == ("s-1",)


def test_what_failed_is_claimed_where_it_is_asked_for_in_the_words_that_samples_are(gateway: Reached) -> None:
    rollout(gateway, "s-1", run_id="r1", status="failed")
    with gateway.client.claim(run="r1") as work:
        assert not work
    for number, status in enumerate(("failed", ["failed", "aborted"])):
        with gateway.client.claim(run="r1", status=status, consumer=f"judge-{number}") as work:
            assert work.session_ids == ("s-1",)
        assert [sample.session_id for sample in gateway.client.samples(run="r1", status=status)] == ["s-1"]


def test_a_late_acknowledgement_is_refused(gateway: Reached) -> None:
    rollout(gateway, "s-1", run_id="r1")
    with pytest.raises(ClaimExpired), gateway.client.claim(run="r1", lease=0.05):
        time.sleep(0.1)
    with gateway.client.claim(run="r1") as work:
        assert work.session_ids == ("s-1",)


def test_long_work_extends_its_lease(gateway: Reached) -> None:
    rollout(gateway, "s-1", run_id="r1")
    with gateway.client.claim(run="r1", lease=2) as work:
        before = work.claim.expires_at
        work.extend(3600)
        assert (work.claim.expires_at - before).total_seconds() > 3000


def test_what_was_settled_in_the_block_stays_so(gateway: Reached) -> None:
    rollout(gateway, "s-1", run_id="r1")
    with gateway.client.claim(run="r1") as work:
        work.release()
    assert work.claim.status == "released"
    with gateway.client.claim(run="r1") as work:
        work.acknowledge()
        work.acknowledge()
    with gateway.client.claim(run="r1") as work:
        assert not work


def test_a_claim_is_read_over_many_pages(gateway: Reached) -> None:
    for number in range(18):
        rollout(gateway, f"s-{number}", run_id="r1")
    with gateway.client.claim(run="r1", limit=100) as work:
        assert [sample.session_id for sample in work.samples()] == list(work.session_ids)
        assert len(work.session_ids) == 18
