"""`/api/samples` and a session's own, over a real store."""

from __future__ import annotations

import asyncio
import io
import json
import time
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import update

from adapters.schema import Choice, Reward, Session, Trace
from adapters.token_ids import TokenIds
from storage.errors import Unavailable
from storage.formats.flat import sample_from_row
from storage.formats.shapes import SHAPES
from storage.records import EndedQuery, Page
from storage.samples.sample import Sample
from storage.store import Store
from storage.tables import traces
from tests.gateway.api.harness import STARTED, Api, api, trace
from tests.gateway.api.rollouts import rollout, rows, sessions_of, soon
from tests.storage.behind import behind

LINES = {"accept": "application/x-ndjson"}
PARQUET = {"accept": "application/vnd.apache.parquet"}
ARROW = {"accept": "application/vnd.apache.arrow.stream"}


async def test_a_sample_is_told_in_its_own_names_and_read_back_as_it_was(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await rollout(served, "s1", turns=2, run_id="r1", group_id="g1", metadata={"task": 7})
        await served.store.add_rewards("s1", [Reward("k1", "score", 0.7, STARTED)])
        (told,) = await rows(served, "/api/samples")
    assert told.keys() == {field.name for field in fields(Sample)}
    assert told["token_ids"] == [*range(10), 1000, 1001, *range(10), 1002, 1003]
    assert told["mask"] == [0] * 10 + [1, 1] + [0] * 10 + [1, 1]
    assert told["logprobs"] == [0.0] * 10 + [-0.5, -0.25] + [0.0] * 10 + [-0.5, -0.25]
    assert (told["first_prompt_len"], told["weight"], told["reward"]) == (10, 1.0, 0.7)
    assert (told["run_id"], told["group_id"], told["metadata"]) == ("r1", "g1", {"task": 7})
    assert [span["start"] for span in told["spans"]] == [10, 22]
    assert sample_from_row(told).token_ids == TokenIds(told["token_ids"])


async def test_a_sessions_own_samples_are_told_whatever_its_status(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for number, status in enumerate((None, "failed", "aborted", "finished")):
            await rollout(served, f"s{number}", number=number, status=status)  # type: ignore[arg-type]
            assert await sessions_of(served, f"/api/sessions/s{number}/samples") == [f"s{number}"]
        missing = await served.client.get("/api/sessions/nope/samples")
        assert (missing.status_code, missing.json()["code"]) == (404, "session_not_found")
        await served.store.delete_session("s3")
        assert (await served.client.get("/api/sessions/s3/samples")).status_code == 410


async def several(served: Api) -> None:
    await rollout(served, "s1", number=1, run_id="r1", group_id="g1")
    await rollout(served, "s2", number=2, run_id="r1", purpose="eval")
    await rollout(served, "s3", number=3, run_id="r2", status="failed")
    await rollout(served, "s4", number=4, status=None)
    await rollout(served, "s5", number=5, call={"weight_version": "9"})


async def test_samples_are_those_of_finished_sessions_unless_asked_for(tmp_path: Path) -> None:
    cases = [
        ("", "s1 s5"),
        ("run_id=r1", "s1"),
        ("run_id=r1&group_id=g1", "s1"),
        ("run_id=", "s5"),
        ("session_id=s2", "s2"),
        ("session_id=s4", ""),
        ("purpose=eval", "s2"),
        ("purpose=any", "s1 s2 s5"),
        ("status=failed", "s3"),
        ("status=finished,failed", "s1 s3 s5"),
        ("status=finished&status=failed", "s1 s3 s5"),
        ("since=2100-01-01T00:00:00Z", ""),
        ("until=2100-01-01T00:00:00Z", "s1 s5"),
        ("min_weight_version=8", "s5"),
        ("max_weight_version=8", "s1"),
        ("vocab_size=500", ""),
        ("vocab_size=500&fatal=true", "s1 s5"),
    ]
    async with api(tmp_path) as served:
        await several(served)
        for query, found in cases:
            assert await sessions_of(served, f"/api/samples?{query}") == found.split(), query


async def test_options_reach_the_builder(tmp_path: Path) -> None:
    unsure = {"choices": (Choice(0, TokenIds([7]), logprobs=None, finish_reason="stop"),), "logprobs_fidelity": "none"}
    async with api(tmp_path) as served:
        await rollout(served, "s1", number=1, turns=3)
        await rollout(served, "s2", number=2, call=unsure)
        await rollout(served, "s3", number=3, call={"status": "client_disconnected"})
        await rollout(served, "s4", number=4, call={"purpose": "aux"})
        await rollout(served, "s5", number=5)
        lost = trace(599, "s5", fidelity="partial", fidelity_reason="ids are missing")
        await served.store.finish(lost, timeout=10)
        assert await sessions_of(served, "/api/samples") == ["s1", "s5"]
        assert await sessions_of(served, "/api/samples?style=traces") == ["s1", "s1", "s1", "s5"]
        assert await sessions_of(served, "/api/samples?logprobs=optional") == ["s1", "s2", "s5"]
        assert await sessions_of(served, "/api/samples?cut=true") == ["s1", "s3", "s5"]
        assert await sessions_of(served, "/api/samples?aux=true") == ["s1", "s4", "s5"]
        assert await sessions_of(served, "/api/samples?require=complete") == ["s1"]
        assert await sessions_of(served, "/api/sessions/s5/samples?require=complete") == []


async def test_every_shape_is_told_as_json_and_as_lines(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await rollout(served, "s1", turns=2, run_id="r1", group_id="g1")
        await served.store.add_rewards("s1", [Reward("k1", "score", 0.7, STARTED)])
        for shape in SHAPES:
            items = await rows(served, f"/api/samples?shape={shape}")
            assert items, shape
            assert await rows(served, f"/api/sessions/s1/samples?shape={shape}") == items
            lines = await served.client.get(f"/api/samples?shape={shape}", headers=LINES)
            assert [json.loads(line) for line in lines.content.splitlines()] == items


async def test_pages_together_are_the_list_and_none_splits_a_session(tmp_path: Path) -> None:
    fork = (Choice(0, TokenIds([4]), logprobs=(-0.5,)), Choice(1, TokenIds([5]), logprobs=(-0.5,)))
    async with api(tmp_path) as served:
        for number in range(7):
            await rollout(served, f"s{number}", number=number, call={"choices": fork})
        whole = await rows(served, "/api/samples")
        assert len(whole) == 14
        paged, cursor = [], None
        while True:
            told = {"limit": "3"} | ({"cursor": cursor} if cursor else {})
            page = (await served.client.get("/api/samples", params=told)).json()
            if not page["items"]:
                break
            assert sum(row["weight"] for row in page["items"]) in (3, 1)
            paged += page["items"]
            cursor = page["next"]
        assert paged == whole
        assert page["next"] == cursor


async def test_a_page_ends_when_its_bytes_are_many(tmp_path: Path) -> None:
    ids = TokenIds(range(100_000))
    long = {"choices": (Choice(0, ids, logprobs=(-0.123456789,) * 100_000, finish_reason="stop"),)}
    async with api(tmp_path) as served:
        # 3 MB a session as JSON: 32 MiB are reached in the second step of eight.
        for number in range(18):
            await rollout(served, f"s{number}", number=number, call=long)
        first = (await served.client.get("/api/samples")).json()
        assert [row["session_id"] for row in first["items"]] == [f"s{number}" for number in range(16)]
        second = (await served.client.get("/api/samples", params={"cursor": first["next"]})).json()
        assert [row["session_id"] for row in second["items"]] == ["s16", "s17"]


async def test_sessions_that_give_no_rows_end_no_list(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for number in range(20):
            await rollout(served, f"s{number}", number=number, call={"purpose": "aux"} if number < 19 else None)
        page = (await served.client.get("/api/samples?limit=1")).json()
        assert [row["session_id"] for row in page["items"]] == ["s19"]
        empty = (await served.client.get("/api/samples", params={"cursor": page["next"]})).json()
        assert empty == {"items": [], "next": page["next"], "complete": True}


async def test_a_list_waits_for_sessions_that_end_and_give_rows(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        nothing = (await served.client.get("/api/samples")).json()
        assert nothing["items"] == []
        params = {"wait": "30"} | ({"cursor": nothing["next"]} if nothing["next"] else {})
        waiting = asyncio.create_task(served.client.get("/api/samples", params=params))
        lines = asyncio.create_task(served.client.get("/api/samples?wait=30", headers=LINES))
        await rollout(served, "s0", status=None)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert not lines.done()
        await rollout(served, "aux", number=1, call={"purpose": "aux"})
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await served.store.finish_session("s0")
        assert [row["session_id"] for row in (await soon(waiting)).json()["items"]] == ["s0"]
        await soon(lines)
        started = time.monotonic()
        assert (await served.client.get("/api/samples?wait=0.2&run_id=never")).json()["items"] == []
        assert time.monotonic() - started >= 0.2


async def test_waiting_ends_when_the_gateway_is_about_to_stop(tmp_path: Path) -> None:
    stopping: list[bool] = []
    async with api(tmp_path, stopping=lambda: bool(stopping)) as served:
        waiting = [
            asyncio.create_task(served.client.get("/api/samples?wait=60", headers=headers)) for headers in ({}, LINES)
        ]
        await asyncio.sleep(0.1)
        stopping.append(True)
        page, lines = [await soon(each) for each in waiting]
    assert page.json()["items"] == []
    assert lines.content == b""


async def test_files_have_every_page_and_lose_nothing(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for number in range(120):
            await rollout(served, f"s{number}", number=number)
        whole = await rows(served, "/api/samples?limit=1000")
        assert len(whole) == 120
        lines = await served.client.get("/api/samples", headers=LINES)
        assert lines.headers["content-type"].startswith("application/x-ndjson")
        assert [json.loads(line) for line in lines.content.splitlines()] == whole
        parquet = await served.client.get("/api/samples", headers=PARQUET)
        assert parquet.headers["content-type"] == "application/vnd.apache.parquet"
        arrow = await served.client.get("/api/samples", headers=ARROW)
        tables = [pq.read_table(io.BytesIO(parquet.content)), pa.ipc.open_stream(arrow.content).read_all()]
        for table in tables:
            assert [row["token_ids"] for row in table.to_pylist()] == [row["token_ids"] for row in whole]
        alone = await served.client.get("/api/sessions/s7/samples", headers=PARQUET)
        assert pq.read_table(io.BytesIO(alone.content)).to_pylist() == [tables[0].to_pylist()[7]]


@pytest.mark.parametrize(
    ("path", "detail"),
    [
        ("/api/samples?shape=verl1", "did you mean verl?"),
        ("/api/samples?status=open", "status"),
        ("/api/samples?stlye=traces", "did you mean style?"),
        ("/api/samples?cursor=nonsense", "is not a cursor of this list"),
        ("/api/samples?vocab_size=0", "vocab_size"),
    ],
)
async def test_a_wrong_question_is_a_400_that_helps(tmp_path: Path, path: str, detail: str) -> None:
    async with api(tmp_path) as served:
        answer = await served.client.get(path)
    assert answer.status_code == 400
    assert detail in answer.json()["detail"]


async def test_a_shape_that_has_no_columns_is_had_as_lines(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for path in ("/api/samples?shape=verl", "/api/sessions/s1/samples?shape=verl"):
            await rollout(served, "s1") if path.startswith("/api/sessions") else None
            answer = await served.client.get(path, headers=PARQUET)
            assert (answer.status_code, answer.json()["code"]) == (400, "cannot_write")
            assert "format=jsonl" in answer.json()["detail"]


async def test_a_sample_that_a_trainers_record_has_no_place_for_is_a_400_that_names_it(tmp_path: Path) -> None:
    unsure = {"choices": (Choice(0, TokenIds([7]), logprobs=None, finish_reason="stop"),), "logprobs_fidelity": "none"}
    async with api(tmp_path) as served:
        await rollout(served, "s1", call=unsure)
        for headers in ({}, LINES):
            answer = await served.client.get("/api/samples?shape=tinker&logprobs=optional", headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (400, "cannot_shape")
            assert "s1" in answer.json()["detail"]


class Spoilt(SimpleNamespace):
    """A store whose database is away when some sessions are read."""

    store: Store
    spoilt: set[str]

    async def ended_sessions(self, query: EndedQuery) -> Page[Session]:
        return await self.store.ended_sessions(query)

    async def whole_session(self, session_id: str) -> tuple[Trace, ...]:
        if session_id in self.spoilt:
            raise Unavailable(f"the database can't be read: not for {session_id}")
        return await self.store.whole_session(session_id)

    async def complete(self) -> bool:
        return await self.store.complete()


@pytest.mark.parametrize("headers", [{}, LINES, PARQUET, ARROW])
async def test_what_fails_at_the_beginning_is_an_answer_that_says_so(tmp_path: Path, headers: dict[str, str]) -> None:
    async with api(tmp_path, spoil=lambda store: Spoilt(store=store, spoilt={"s0"})) as served:
        await rollout(served, "s0")
        for path in ("/api/samples", "/api/sessions/s0/samples"):
            answer = await served.client.get(path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")


@pytest.mark.parametrize("headers", [{}, LINES, PARQUET, ARROW])
async def test_what_fails_on_the_way_never_ends_as_if_it_were_all(
    tmp_path: Path, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    long = {"prompt_token_ids": TokenIds(range(300_000))}
    async with api(tmp_path, spoil=lambda store: Spoilt(store=store, spoilt={"s1"})) as served:
        await rollout(served, "s0", number=0, call=long)
        await rollout(served, "s1", number=1)
        with pytest.raises(Unavailable):
            await served.client.get("/api/samples", headers=headers)
    assert "The database can't be read: not for s1" in caplog.text


@pytest.mark.parametrize("headers", [{}, LINES, PARQUET, ARROW])
async def test_a_session_with_a_trace_that_cannot_be_read_back_is_left_out_and_ends_no_feed(
    tmp_path: Path, headers: dict[str, str]
) -> None:
    async with api(tmp_path) as served:
        for number in range(3):
            await rollout(served, f"s{number}", number=number, turns=2)
        with behind(f"sqlite:///{tmp_path / 'rollouts.db'}") as db:
            db.execute(update(traces).where(traces.c.session_id == "s1", traces.c.turn == 1).values(digest=b"another"))
        answer = await served.client.get("/api/samples", headers=headers)
        assert answer.status_code == 200
        assert await sessions_of(served, "/api/samples") == ["s0", "s2"]
        told = await rows(served, "/api/samples?fatal=true")
        assert [row["session_id"] for row in told] == ["s0", "s1", "s2"]
        (found,) = [finding for finding in told[1]["findings"] if finding["fatal"]]
        assert (found["code"], found["trace_ids"]) == ("session_incomplete", ["01930000-0000-7000-8000-000000000101"])


async def test_a_claim_gives_nothing_to_train_of_a_session_that_cannot_be_read_back_and_ends(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await rollout(served, "s0")
        with behind(f"sqlite:///{tmp_path / 'rollouts.db'}") as db:
            db.execute(update(traces).values(text=b"\x07"))
        claim = (await served.client.post("/api/claims", json={})).json()
        assert (claim["session_ids"], await rows(served, f"/api/samples?claim={claim['claim_id']}")) == (["s0"], [])
        assert (await served.client.post(f"/api/claims/{claim['claim_id']}/ack")).status_code == 200
        assert (await served.client.post("/api/claims", json={})).status_code == 204


async def test_a_list_is_not_complete_while_a_spool_is_not_drained(tmp_path: Path) -> None:
    def unable(store: Store) -> Any:
        async def complete() -> bool:
            return False

        return SimpleNamespace(
            ended_sessions=store.ended_sessions, whole_session=store.whole_session, complete=complete
        )

    async with api(tmp_path, spoil=unable) as served:
        await rollout(served, "s1")
        for path in ("/api/samples", "/api/sessions/s1/samples"):
            assert (await served.client.get(path)).json()["complete"] is False
