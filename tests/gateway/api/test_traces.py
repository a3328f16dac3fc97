"""`/api/traces` and a session's own, over a real store."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import update

from adapters.schema import Choice, Error, RecordedRequest, RoutedExperts, Session, Trace
from adapters.token_ids import TokenIds
from storage.errors import CorruptTrace, Unavailable
from storage.records import Page, TraceQuery
from storage.store import Store
from storage.tables import traces
from tests.gateway.api.harness import STARTED, Api, api, trace
from tests.storage.behind import behind


async def test_a_trace_is_told_in_the_schemas_own_names(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        recorded = await served.record(trace())
        told = (await served.client.get(f"/api/traces/{recorded.trace_id}")).json()
    assert list(told) == [field.name for field in fields(Trace)]
    assert told["prompt_token_ids"] == [1, 2, 3]
    assert told["turn"] == 0
    assert told["started_at"] == "2026-11-20T08:00:00Z"
    assert told["request"] == {"body": {"model": "m", "temperature": 1.0}, "headers": {"user-agent": "a"}}
    (choice,) = told["choices"]
    assert list(choice) == [field.name for field in fields(Choice)]
    assert (choice["token_ids"], choice["logprobs"]) == ([4, 5], [-0.5, None])
    assert (choice["tool_calls"], choice["weight_versions"], choice["routed_experts"]) == (None, None, None)


async def test_a_request_is_told_as_the_json_that_it_was_or_as_a_string(tmp_path: Path) -> None:
    cases = [
        (b'{"a": 1e400, "b": 1.10, "c": "\xc3\xa9\\u2028"}', '{"a": 1e400, "b": 1.10, "c": "é\\u2028"}'),
        (b'{"a":\r\n\t1}\n', '{"a":  \t1}'),
        (b"not JSON", '"not JSON"'),
        (b'{"a": NaN}', '"{\\"a\\": NaN}"'),
        (b'"\xff"', '"\\"�\\""'),
        (b"[" * 5000, '"[[['),
        (b"", '""'),
        (None, "null"),
    ]
    async with api(tmp_path) as served:
        for number, (body, told) in enumerate(cases):
            recorded = await served.record(trace(number, request=RecordedRequest(body)))
            answer = await served.client.get(f"/api/traces/{recorded.trace_id}")
            assert f'"body":{told}' in answer.text
            json.loads(answer.content)
        lines = await served.client.get("/api/traces", headers={"accept": "application/x-ndjson"})
        assert lines.content.count(b"\n") == len(cases)


async def test_not_told_is_null_and_told_none_is_an_empty_list(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        nothing = Choice(0, token_ids=TokenIds(), logprobs=(), tool_calls=())
        await served.record(trace(1, prompt_token_ids=None, choices=(nothing, Choice(1))))
        (told,) = (await served.client.get("/api/traces")).json()["items"]
    assert told["prompt_token_ids"] is None
    assert [choice["token_ids"] for choice in told["choices"]] == [[], None]
    assert [choice["tool_calls"] for choice in told["choices"]] == [[], None]


async def test_routed_experts_are_base64_with_shape_and_dtype(tmp_path: Path) -> None:
    data = bytes(range(16))
    async with api(tmp_path) as served:
        experts = RoutedExperts(data, (2, 4), "int16")
        await served.record(trace(choices=(Choice(0, token_ids=TokenIds([1, 2]), routed_experts=experts),)))
        (told,) = (await served.client.get("/api/traces")).json()["items"]
    assert told["choices"][0]["routed_experts"] == {
        "data": base64.b64encode(data).decode(),
        "shape": [2, 4],
        "dtype": "int16",
    }


async def several(served: Api) -> None:
    await served.record(trace(1, "s1"), Session("s1", STARTED, run_id="r1", group_id="g1"))
    await served.record(trace(2, "s1", model="other", status="backend_error", error=Error("overloaded")))
    await served.record(
        trace(3, "s2", backend="gpu-2", engine="sglang", fidelity="partial", purpose="aux", weight_version="8"),
        Session("s2", STARTED, run_id="r1"),
    )
    await served.record(trace(4, "s3", dialect="completions"), Session("s3", STARTED, run_id="r2"))


async def test_traces_are_filtered(tmp_path: Path) -> None:
    cases = [
        ("", [1, 2, 3, 4]),
        ("session_id=s1", [1, 2]),
        ("run_id=r1", [1, 2, 3]),
        ("run_id=r1&group_id=g1", [1, 2]),
        ("model=other", [2]),
        ("engine=sglang", [3]),
        ("backend=gpu-2", [3]),
        ("status=backend_error", [2]),
        ("fidelity=partial", [3]),
        ("weight_version=8", [3]),
        ("purpose=aux", [3]),
        ("dialect=completions", [4]),
        ("since=2026-11-20T08:00:03Z", [3, 4]),
        ("until=2026-11-20T08:00:03Z", [1, 2]),
        ("since=2026-11-20T10:00:03+02:00", [3, 4]),
        ("session_id=never", []),
    ]
    async with api(tmp_path) as served:
        await several(served)
        for query, found in cases:
            page = (await served.client.get(f"/api/traces?{query}")).json()
            assert [int(each["trace_id"][-3:]) for each in page["items"]] == found, query
            assert (page["next"], page["complete"]) == (None, True)


async def test_pages_together_are_the_list_and_so_are_json_lines(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for number in range(7):
            await served.record(trace(number))
        whole = (await served.client.get("/api/traces")).json()["items"]
        for path in ("/api/traces?limit=3", "/api/sessions/s1/traces?limit=3"):
            paged, page = [], (await served.client.get(path)).json()
            while True:
                assert len(page["items"]) <= 3
                paged += page["items"]
                if page["next"] is None:
                    break
                page = (await served.client.get(path, params={"limit": 3, "cursor": page["next"]})).json()
            assert paged == whole
        lines = await served.client.get("/api/traces", headers={"accept": "application/x-ndjson"})
        assert lines.headers["content-type"].startswith("application/x-ndjson")
        assert [json.loads(line) for line in lines.content.splitlines()] == whole
        some = await served.client.get("/api/traces?limit=2", headers={"accept": "application/x-ndjson"})
        assert [json.loads(line) for line in some.content.splitlines()] == whole[:2]


async def test_fields_are_chosen_or_left_out(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await served.record(trace())

        async def told(query: str) -> dict[str, Any]:
            (item,) = (await served.client.get(f"/api/traces?{query}")).json()["items"]
            assert isinstance(item, dict)
            return item

        assert await told("fields=model") == {"model": "m"}
        assert await told("fields=choices.token_ids,turn") == {"turn": 0, "choices": [{"token_ids": [4, 5]}]}
        assert await told("fields=choices&exclude=choices.text") == {
            "choices": [
                {name: value for name, value in (await told("fields=choices"))["choices"][0].items() if name != "text"}
            ]
        }
        assert not {"request", "choices"} & (await told("exclude=request,%20choices")).keys()
        single = await served.client.get("/api/traces/01930000-0000-7000-8000-000000000000?fields=status")
        assert single.json() == {"status": "ok"}


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("fields=promt_token_ids", "did you mean prompt_token_ids?"),
        ("exclude=choices.logprob", "did you mean choices.logprobs?"),
    ],
)
async def test_a_field_that_does_not_exist_names_the_nearest(tmp_path: Path, query: str, sentence: str) -> None:
    async with api(tmp_path) as served:
        for path in ("/api/traces", "/api/traces/t1"):
            answer = await served.client.get(f"{path}?{query}")
            assert answer.status_code == 400
            assert sentence in answer.json()["detail"]


async def test_an_unknown_trace_is_a_404(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        answer = await served.client.get("/api/traces/nope")
        assert (answer.status_code, answer.json()["code"]) == (404, "trace_not_found")


async def test_a_list_waits_for_news_and_no_longer(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        waiting = asyncio.create_task(served.client.get("/api/traces?wait=30"))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await served.record(trace())
        page = (await asyncio.wait_for(waiting, 10)).json()
        assert len(page["items"]) == 1
        started = time.monotonic()
        empty = (await served.client.get("/api/traces?wait=0.2&status=interrupted")).json()
        assert empty == {"items": [], "next": None, "complete": True}
        assert time.monotonic() - started >= 0.2


class AtHand(SimpleNamespace):
    """A store that has its page already, so that all that is left is to encode and send it."""

    page: Page[Trace]
    store: Store

    async def traces(self, _: TraceQuery) -> Page[Trace]:
        return self.page

    async def complete(self) -> bool:
        return await self.store.complete()


async def test_reading_ten_traces_of_a_hundred_thousand_ids_does_not_stall_others(tmp_path: Path) -> None:
    """While a million ids are encoded and sent, the event loop turns hundreds of times or more.

    On the loop itself each trace is one turn or two, some 20 in all, and nobody else is served in it.
    """
    ids = TokenIds(range(100_000))
    choice = Choice(0, token_ids=ids, logprobs=tuple(number / 1000 for number in range(100_000)))
    page = Page(tuple(trace(number, prompt_token_ids=ids, choices=(choice,)) for number in range(10)))
    async with api(tmp_path, spoil=lambda store: AtHand(page=page, store=store)) as served:
        turns = 0
        reading = asyncio.create_task(served.client.get("/api/traces"))
        while not reading.done():
            await asyncio.sleep(0)
            turns += 1
        items = (await reading).json()["items"]
    assert [len(item["choices"][0]["logprobs"]) for item in items] == [100_000] * 10
    assert turns > 60


@pytest.mark.parametrize("headers", [{}, {"accept": "application/x-ndjson"}])
async def test_a_payload_is_read_only_where_a_field_needs_it(
    tmp_path: Path, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    async with api(tmp_path) as served:
        await served.record(trace())
        with behind(f"sqlite:///{tmp_path / 'rollouts.db'}") as db:
            db.execute(update(traces).values(text=b"\x07"))
        for asked, expected, unreadable in (
            ("model,status,turn", {"model": "m", "status": "ok", "turn": 0}, 0),
            ("model,fidelity", {"model": "m", "fidelity": "none"}, 1),
        ):
            answer = await served.client.get("/api/traces", params={"fields": asked}, headers=headers)
            assert (answer.json() if headers else answer.json()["items"][0]) == expected
            assert caplog.text.count("can't be read back") == unreadable


class Spoilt(SimpleNamespace):
    """A store of one trace a page, whose database is away at the second, and which has something in its spool."""

    store: Store

    async def traces(self, query: TraceQuery) -> Page[Trace]:
        if query.cursor is not None:
            raise Unavailable("the database can't be read")
        return await self.store.traces(replace(query, limit=1))

    async def trace(self, trace_id: str, session_id: str | None = None) -> Trace | None:
        raise CorruptTrace("s1", trace_id, "digest")

    async def complete(self) -> bool:
        return False


async def test_a_trace_that_cannot_be_read_back_is_a_500_that_names_it(tmp_path: Path) -> None:
    async with api(tmp_path, spoil=lambda store: Spoilt(store=store)) as served:
        answer = await served.client.get("/api/traces/t1")
    assert (answer.status_code, answer.json()["code"]) == (500, "corrupt_trace")
    assert answer.json()["detail"].startswith("Trace t1 of session s1 can't be read back")


async def test_lines_that_break_off_never_end_as_if_they_were_all(tmp_path: Path) -> None:
    async with api(tmp_path, spoil=lambda store: Spoilt(store=store)) as served:
        for number in range(2):
            await served.record(trace(number))
        with pytest.raises(Unavailable):
            await served.client.get("/api/traces", headers={"accept": "application/x-ndjson"})


async def test_a_list_is_not_complete_while_a_spool_is_not_drained(tmp_path: Path) -> None:
    async with api(tmp_path, spoil=lambda store: Spoilt(store=store)) as served:
        assert (await served.client.get("/api/traces")).json()["complete"] is False
        assert (await served.client.get("/api/sessions")).json()["complete"] is False
