from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from storage.records import ClaimRequest, GroupQuery, SessionQuery, TraceQuery
from storage.store import Store
from storage.texts import read, written
from tests.storage.examples import call, session

AWKWARD = st.text(st.sampled_from("a01\0\ufdd0\ufdd1é"))


@given(AWKWARD)
def test_every_text_is_read_as_it_was_written_and_has_no_nul_meanwhile(text: str) -> None:
    stored = written(text)
    assert stored is not None
    assert "\0" not in stored
    assert read(stored) == text


@given(AWKWARD, AWKWARD)
def test_two_texts_stay_two(one: str, other: str) -> None:
    assert (written(one) == written(other)) == (one == other)


async def test_what_has_a_nul_is_stored_and_found_by_it(store: Store) -> None:
    await store.create_session(session("s", run_id="r\0", group_id="g\0\ufdd0", group_size=1))
    trace = call("s", model="m\0", weight_version="\0", request_id="\0\0")
    await store.finish(trace, timeout=5)
    assert [each.trace_id for each in (await store.traces(TraceQuery(model="m\0", run_id="r\0"))).items] == [
        trace.trace_id
    ]
    assert (await store.traces(TraceQuery(model="m"))).items == ()
    assert [each.run_id for each in (await store.sessions(SessionQuery(group_id="g\0\ufdd0"))).items] == ["r\0"]
    assert await store.trace("\0") is None
    assert await store.find_session("\0") is None
    first = await store.groups(GroupQuery(run_id="r\0"))
    assert [group.group_id for group in first.items] == ["g\0\ufdd0"]
    assert (await store.groups(GroupQuery(cursor=first.next))).items == ()
    await store.finish_session("s")
    claim = await store.claims.take(ClaimRequest(consumer="c\0"))
    assert claim is not None
    assert (claim.consumer, claim.session_ids) == ("c\0", ("s",))


async def test_ids_and_labels_have_the_order_of_their_bytes(store: Store) -> None:
    names = ["B", "a", "a-b", "a.a", "aa", "b"]
    for name in reversed(names):
        await store.create_session(session(name, group_id=name))
    assert [each.session_id for each in (await store.sessions(SessionQuery())).items] == sorted(names)
    seen: list[str] = []
    cursor = None
    while page := (found := await store.groups(GroupQuery(limit=2, cursor=cursor))).items:
        seen += [group.group_id for group in page]
        cursor = found.next
    assert seen == sorted(names)
