"""`/api/export`: samples and traces as files, whole, in parts, and broken off."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import update

from adapters.schema import Session, Trace
from storage.errors import Unavailable
from storage.records import Page, TraceQuery
from storage.store import Store
from storage.tables import traces
from tests.gateway.api.harness import STARTED, Api, api, trace
from tests.gateway.api.rollouts import rollout, rows
from tests.storage.behind import behind

LINES = {"accept": "application/x-ndjson"}


async def file(served: Api, query: str) -> list[dict[str, Any]]:
    """Its rows, by whichever format."""
    answer = await served.client.get(f"/api/export?{query}")
    assert answer.status_code == 200, answer.text
    if "format=parquet" in query:
        return list(pq.read_table(io.BytesIO(answer.content)).to_pylist())
    if "format=arrow" in query:
        return list(pa.ipc.open_stream(answer.content).read_all().to_pylist())
    return [json.loads(line) for line in answer.content.splitlines()]


async def test_samples_are_exported_as_they_are_listed(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await rollout(served, "s1", number=1, turns=2, run_id="r1")
        await rollout(served, "s2", number=2, run_id="r2")
        await rollout(served, "s3", number=3, status="failed", run_id="r1")
        for query in ("", "run_id=r1", "status=finished,failed", "style=traces", "shape=verl", "run_id=never"):
            assert await file(served, query) == await rows(served, f"/api/samples?{query}")
        for file_format in ("parquet", "arrow"):
            told = await file(served, f"format={file_format}&status=failed,finished")
            assert [row["session_id"] for row in told] == ["s1", "s2", "s3"]
            assert await file(served, f"format={file_format}&run_id=never") == []


async def test_traces_are_exported_with_the_filters_of_their_list(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for number in range(250):
            session = Session(f"s{number % 2}", STARTED, run_id="r1" if number % 2 else None)
            await served.record(trace(number, session.session_id, status="ok" if number else "backend_error"), session)
        whole = await rows(served, "/api/traces?limit=1000")
        assert len(whole) == 250
        assert await file(served, "of=traces") == whole
        for query in ("run_id=r1", "run_id=", "session_id=s0", "status=backend_error", "since=2026-11-20T08:02:00Z"):
            some = await rows(served, f"/api/traces?limit=1000&{query}")
            assert 0 < len(some) < 250
            assert await file(served, f"of=traces&{query}") == some
            for file_format in ("parquet", "arrow"):
                told = await file(served, f"of=traces&format={file_format}&{query}")
                assert [row["trace_id"] for row in told] == [item["trace_id"] for item in some]
        told = await file(served, "of=traces&format=parquet")
        assert told[0]["prompt_token_ids"] == [1, 2, 3]
        assert told[0]["choices"][0]["logprobs"] == [-0.5, None]


@pytest.mark.parametrize("of", ["samples", "traces"])
@pytest.mark.parametrize("file_format", ["jsonl", "parquet", "arrow"])
async def test_parts_together_are_the_whole_and_each_names_the_next(tmp_path: Path, of: str, file_format: str) -> None:
    async with api(tmp_path) as served:
        for number in range(7):
            await rollout(served, f"s{number}", number=number)
        query = f"of={of}&format={file_format}"
        whole = await file(served, query)
        assert len(whole) == 7
        parts: list[dict[str, Any]] = []
        part, cursors = f"{query}&limit=3", []
        while (following := (await served.client.get(f"/api/export?{part}")).headers.get("x-next-cursor")) is not None:
            parts += await file(served, part)
            cursors.append(following)
            part = f"{query}&limit=3&cursor={following}"
        assert parts == whole
        assert len(cursors) == 3
        # The end is a tail: what comes later is the next part.
        assert await file(served, part) == []
        await rollout(served, "s7", number=7)
        assert [row["session_id"] for row in await file(served, part)] == ["s7"]


class Late(SimpleNamespace):
    """A store into which, once a part's end is known, an earlier call comes."""

    store: Store
    late: Trace

    async def traces(self, query: TraceQuery) -> Page[Trace]:
        return await self.store.traces(query)

    async def complete(self) -> bool:
        return await self.store.complete()

    async def traces_end(self, query: TraceQuery) -> str | None:
        end = await self.store.traces_end(query)
        await self.store.finish(self.late, timeout=10)
        return end


async def test_a_trace_that_comes_while_a_part_is_read_pushes_none_out_of_it(tmp_path: Path) -> None:
    late: Any = trace(1, "s1")
    async with api(tmp_path, spoil=lambda store: Late(store=store, late=late)) as served:  # type: ignore[arg-type, return-value]
        for number in (0, 2, 3):
            await served.record(trace(number, "s1"))
        part = await served.client.get("/api/export?of=traces&limit=2")
        rest = await file(served, f"of=traces&limit=2&cursor={part.headers['x-next-cursor']}")
    told = [json.loads(line)["trace_id"][-1] for line in part.content.splitlines()]
    assert (told, [row["trace_id"][-1] for row in rest]) == (["0", "1", "2"], ["3"])


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ("of=traces&style=merged", "style is for of=samples"),
        ("of=traces&shape=flat", "shape is for of=samples"),
        ("of=traces&undelivered_to=t", "undelivered_to is for of=samples"),
        ("model=m", "model is for of=traces"),
        ("of=traces&status=finished", "of=traces it is running, ok,"),
        ("status=ok", "of=samples it is finished, failed, aborted, not ok"),
        ("of=traces&status=ok,running", "one can be asked for"),
        ("format=csv", "jsonl"),
        ("format=parquet&shape=verl", "format=jsonl"),
        ("limit=1001", "limit"),
        ("wait=3", "unknown"),
        ("cursor=nonsense", "is not a cursor"),
        ("of=traces&cursor=nonsense&limit=2", "is not a cursor"),
    ],
)
async def test_a_wrong_question_is_a_400_that_helps(tmp_path: Path, query: str, detail: str) -> None:
    async with api(tmp_path) as served:
        answer = await served.client.get(f"/api/export?{query}")
    assert answer.status_code == 400
    assert detail in answer.json()["detail"]


async def test_a_missing_extra_is_named_and_lines_need_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("storage.formats.parquet", "storage.formats.arrow_stream", "storage.formats.schemas"):
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.delattr(f"storage.formats.{module.rpartition('.')[2]}", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    async with api(tmp_path) as served:
        for query in ("format=parquet", "format=arrow", "of=traces&format=parquet"):
            answer = await served.client.get(f"/api/export?{query}")
            assert (answer.status_code, answer.json()["code"]) == (400, "cannot_write")
            assert 'pip install "rollout-gateway[export]"' in answer.json()["detail"]
        assert (await served.client.get("/api/export?format=jsonl")).status_code == 200


class Spoilt(SimpleNamespace):
    """A store of one trace a page, whose database is away at the second."""

    store: Store

    async def traces(self, query: TraceQuery) -> Page[Trace]:
        if query.cursor is not None:
            raise Unavailable("the database can't be read")
        return await self.store.traces(replace(query, limit=1))

    async def complete(self) -> bool:
        return await self.store.complete()


class Noting(SimpleNamespace):
    """A store that tells how many traces were read at once."""

    store: Store
    at_once: list[int]

    async def traces(self, query: TraceQuery) -> Page[Trace]:
        page = await self.store.traces(query)
        self.at_once.append(len(page.items))
        return page

    async def complete(self) -> bool:
        return await self.store.complete()


@pytest.mark.parametrize(("of_each", "at_once"), [(10, [7]), (1_000_000, [3, 3, 1])])
async def test_of_long_traces_few_are_held_at_once(tmp_path: Path, of_each: int, at_once: list[int]) -> None:
    noted: list[int] = []
    async with api(tmp_path, spoil=lambda store: Noting(store=store, at_once=noted)) as served:
        for number in range(7):
            call = trace(number)
            request = replace(call.request, body=b'"%b"' % (b"x" * of_each))
            await served.record(replace(call, request=request))
        answer = await served.client.get("/api/export?of=traces&format=jsonl")
    assert len(answer.text.splitlines()) == 7
    assert noted == at_once


@pytest.mark.parametrize("file_format", ["jsonl", "parquet", "arrow"])
async def test_traces_that_break_off_never_end_as_if_they_were_all(
    tmp_path: Path, file_format: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with api(tmp_path, spoil=lambda store: Spoilt(store=store)) as served:
        for number in range(2):
            await served.record(trace(number))
        with pytest.raises(Unavailable):
            await served.client.get(f"/api/export?of=traces&format={file_format}")
    assert "The database can't be read" in caplog.text


@pytest.mark.parametrize("file_format", ["jsonl", "parquet", "arrow"])
async def test_a_trace_that_cannot_be_read_back_is_in_the_file_and_exact_in_nothing(
    tmp_path: Path, file_format: str
) -> None:
    async with api(tmp_path) as served:
        for number in range(3):
            await served.record(trace(number))
        with behind(f"sqlite:///{tmp_path / 'rollouts.db'}") as db:
            db.execute(update(traces).where(traces.c.turn == 1).values(digest=b"another"))
        told = await file(served, f"of=traces&format={file_format}")
    assert [(row["fidelity"], bool(row["choices"])) for row in told] == [
        ("exact", True),
        ("none", False),
        ("exact", True),
    ]
    assert told[1]["fidelity_reason"] == "can't be read back: its digest differs"
