"""An export leaves a gateway in bounded memory, at its reader's pace, and arrives whole or goes on."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from adapters.schema import Choice, Session, Trace
from adapters.token_ids import TokenIds
from gateway.api.files import sample_encoder, sample_file
from gateway.api.rows import SampleRows, Walk
from gateway.cli import main
from gateway.scripted import listening
from storage.errors import Unavailable
from storage.formats.shapes import SHAPES
from storage.formats.writers import FileFormat
from storage.records import EndedQuery, Page
from storage.samples.options import SampleOptions
from storage.store import Store
from tests.gateway.api.harness import STARTED, api, trace
from tests.gateway.api.rollouts import rollout


class Watched(dict[str, Any]):
    """Metadata by which it is known whether its trace is still held."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def call(session_id: str, prompt: int, watched: Watched) -> Trace:
    choice = Choice(0, TokenIds([4, 5]), logprobs=(-0.5, -0.25), finish_reason="stop")
    ids = TokenIds(range(prompt))
    return trace(0, session_id, prompt_token_ids=ids, choices=(choice,), metadata=watched)


@dataclass
class Endless:
    """Sessions that are made when they are read; it knows how many of them are still held."""

    sessions: int
    prompt: int = 300_000
    read: int = 0
    most: int = 0
    held: weakref.WeakSet[Watched] = field(default_factory=weakref.WeakSet)

    async def ended_sessions(self, query: EndedQuery) -> Page[Session]:
        begin = 0 if query.cursor is None else int(query.cursor)
        end = min(self.sessions, begin + query.limit)
        return Page(tuple(Session(f"s{number}", STARTED, "finished") for number in range(begin, end)), str(end))

    async def whole_session(self, session_id: str) -> tuple[Trace, ...]:
        self.read += 1
        self.most = max(self.most, len(self.held) + 1)
        watched = Watched()
        self.held.add(watched)
        return (call(session_id, self.prompt, watched),)


@pytest.mark.parametrize("file_format", ["jsonl", "arrow", "parquet"])
async def test_an_export_holds_a_large_session_alone_and_reads_none_ahead(file_format: FileFormat) -> None:
    store = Endless(10)
    walk = Walk(store, EndedQuery())
    rows = SampleRows(SHAPES["flat"], SampleOptions())
    answer: Any = await sample_file(walk, rows, sample_encoder(file_format, "flat"), None, complete=True)
    size = 0
    async for piece in answer.body_iterator:
        size += len(piece)
        assert len(piece) <= 256 * 1024
        if file_format == "jsonl":
            assert store.read <= size // 2_000_000 + 2  # Some 3 MB a line.
    assert store.read == 10
    assert store.most <= 2  # The thread that made the rows may be about to let go of its own.


async def test_small_sessions_are_taken_together_up_to_a_bound() -> None:
    store = Endless(100, prompt=30_000)
    answer: Any = await sample_file(
        Walk(store, EndedQuery()),
        SampleRows(SHAPES["flat"], SampleOptions()),
        sample_encoder("arrow", "flat"),
        None,
        complete=True,
    )
    assert sum([len(piece) async for piece in answer.body_iterator]) > 100 * 30_000 * 9
    assert 2 <= store.most <= 2 * 9  # 256 Ki ids, and those that a thread is about to let go of.


async def test_a_client_that_has_gone_is_read_for_no_more(tmp_path: Path) -> None:
    store: Any = Endless(1_000_000)
    async with (
        api(tmp_path, spoil=lambda _: store) as served,
        listening(served.app) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        async with client.stream("GET", "/api/export") as answer:
            async for _ in answer.aiter_raw():
                break
        await asyncio.sleep(0.5)
        read = store.read
        await asyncio.sleep(0.5)
        assert store.read == read < 100


@dataclass
class Flaky:
    """A store whose database is away when one session is read, so many times."""

    store: Store
    session_id: str
    times: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    async def whole_session(self, session_id: str) -> tuple[Trace, ...]:
        if session_id == self.session_id and self.times:
            self.times -= 1
            raise Unavailable("the database can't be read")
        return await self.store.whole_session(session_id)


LONG = {"choices": (Choice(0, TokenIds(range(300_000)), logprobs=(-0.5,) * 300_000, finish_reason="stop"),)}


@pytest.mark.parametrize("file_format", ["jsonl", "parquet", "arrow"])
async def test_over_a_connection_what_broke_off_is_no_whole_answer(tmp_path: Path, file_format: str) -> None:
    flaky: Any = None

    def spoil(store: Store) -> Any:
        nonlocal flaky
        flaky = Flaky(store, "s1", times=1)
        return flaky

    async with (
        api(tmp_path, spoil=spoil) as served,
        listening(served.app) as url,
        httpx.AsyncClient(base_url=url, trust_env=False) as client,
    ):
        await rollout(served, "s0", call=LONG)
        await rollout(served, "s1", number=1)
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get("/api/export", params={"format": file_format})
        # The same again is whole.
        assert (await client.get("/api/export", params={"format": file_format})).status_code == 200


async def test_the_command_goes_on_over_a_break_and_its_files_are_all_that_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    flaky: list[Any] = []
    async with (
        api(tmp_path, spoil=lambda store: flaky.append(Flaky(store, "s2", times=1)) or flaky[0]) as served,  # type: ignore[func-returns-value]
        listening(served.app) as url,
    ):
        for number in range(5):
            # A part has two sessions: the first is large enough to be on its way when the second fails.
            await rollout(served, f"s{number}", number=number, run_id="run/1" if number else None, call=LONG)
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(main, ["export", str(folder), "--url", url, "--part", "2"])
    assert (ended.value.code, flaky[0].times) == (0, 0)
    assert capsys.readouterr().out.startswith("3 new parts, ")
    names = [path.relative_to(folder).parts for path in sorted(folder.rglob("part-*"))]
    assert [(run, name) for run, _, name in names] == [
        ("run=__HIVE_DEFAULT_PARTITION__", "part-00000.parquet"),
        ("run=run%2F1", "part-00000.parquet"),
        ("run=run%2F1", "part-00001.parquet"),
    ]
    rows = pq.read_table(folder).select(["run", "session_id", "token_ids"]).to_pylist()
    assert sorted(row["session_id"] for row in rows) == ["s0", "s1", "s2", "s3", "s4"]
    assert {row["run"] for row in rows} == {None, "run/1"}
    assert {len(row["token_ids"]) for row in rows} == {300_010}
