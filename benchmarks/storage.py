"""What storing costs: CPU a trace, rows a second, bytes of a session, each beside plain JSON a trace in the same run.

    python -m benchmarks.storage [traces]

Text and ids are made from the standard library's own source: words of a skewed frequency, like a model's tokens.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sqlite3
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from adapters.schema import Choice, RecordedRequest, Session, Trace, Usage
from adapters.token_ids import TokenIds
from storage.ids import new_id
from storage.opening import open_database
from storage.records import TraceQuery
from storage.store import Store

TURNS = 20
SESSION_TOKENS = 32_000
SAMPLED = 200
_FILES = ("argparse.py", "subprocess.py", "typing.py", "zipfile.py", "turtle.py", "tarfile.py", "ast.py")


@dataclass
class Corpus:
    """Tokens to talk with."""

    pieces: list[str]
    ids: list[int]
    at: int = 0

    @classmethod
    def read(cls) -> Corpus:
        library = Path(sysconfig.get_paths()["stdlib"])
        text = "\n".join((library / name).read_text() for name in _FILES)
        pieces = re.findall(r" ?[A-Za-z]{1,6}|\d{1,3}|\s+|[^\sA-Za-z\d]", text)
        ids: dict[str, int] = {}
        rng = random.Random(1)
        for piece in pieces:
            ids.setdefault(piece, min(151_000, int(rng.paretovariate(0.35) * 20) + 3 * len(ids)))
        return cls(pieces, [ids[piece] for piece in pieces])

    def take(self, count: int) -> tuple[str, list[int]]:
        if self.at + count > len(self.pieces):
            self.at = 0
        part = slice(self.at, self.at + count)
        self.at += count
        return "".join(self.pieces[part]), self.ids[part]


def body(messages: list[dict[str, str]]) -> bytes:
    tools = [
        {"type": "function", "function": {"name": name, "description": f"{name} a file in the workspace " * 6}}
        for name in ("read", "write", "search", "run")
    ]
    return json.dumps({"model": "policy", "messages": messages, "tools": tools, "stream": True}).encode()


def trace(session_id: str, request: bytes, prompt: list[int], answer: str, sampled: list[int]) -> Trace:
    rng = random.Random(len(prompt))
    logprobs = tuple(float(np.float32(-rng.expovariate(2))) for _ in sampled)
    return Trace(
        trace_id=new_id(),
        session_id=session_id,
        dialect="chat",
        status="ok",
        started_at=datetime.now(UTC),
        request=RecordedRequest(request, {"user-agent": "OpenAI/Python 3.54.0"}),
        model="policy",
        served_model="policy",
        http_status=200,
        backend="http://127.0.0.1:8000",
        engine="vllm",
        engine_version="0.29.0",
        plan="streamed",
        prompt_token_ids=TokenIds(prompt),
        choices=(Choice(0, TokenIds(sampled), logprobs=logprobs, text=answer, finish_reason="stop"),),
        usage=Usage(len(prompt), len(sampled), len(prompt) + len(sampled)),
        fidelity="exact",
        source="choices[].token_ids",
        logprobs_fidelity="exact",
        logprobs_mode="raw",
        duration_ms=1234.5,
        request_id=new_id(),
        gateway_id="bench",
    )


def growing_session(corpus: Corpus, session_id: str, turns: int = TURNS) -> Iterator[Trace]:
    messages: list[dict[str, str]] = []
    prompt: list[int] = []
    for turn in range(turns):
        given, ids = corpus.take(SESSION_TOKENS // TURNS - SAMPLED)
        messages.append({"role": "tool" if turn else "user", "content": given})
        prompt = prompt + ids
        answer, sampled = corpus.take(SAMPLED)
        yield trace(session_id, body(messages), prompt, answer, sampled)
        messages.append({"role": "assistant", "content": answer})
        prompt = prompt + sampled


def single_calls(corpus: Corpus, count: int) -> list[Trace]:
    found = []
    for _ in range(count):
        given, ids = corpus.take(1000)
        answer, sampled = corpus.take(SAMPLED)
        session_id = new_id()
        found.append(trace(session_id, body([{"role": "user", "content": given}]), ids, answer, sampled))
    return found


def as_json(one: Trace) -> str:
    """What a gateway that stores a JSON document a trace has in it."""
    choice = one.choices[0]
    assert one.prompt_token_ids is not None
    assert choice.token_ids is not None
    return json.dumps(
        {
            "trace_id": one.trace_id,
            "session_id": one.session_id,
            "model": one.model,
            "request": json.loads(one.request.body or b"{}"),
            "response": choice.text,
            "prompt_token_ids": one.prompt_token_ids.tolist(),
            "token_ids": choice.token_ids.tolist(),
            "logprobs": choice.logprobs,
            "usage": {"prompt_tokens": len(one.prompt_token_ids), "completion_tokens": len(choice.token_ids)},
        }
    )


def json_store(path: Path, traces: list[Trace]) -> None:
    """The plain way: a JSON document a trace, a commit a trace."""
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE traces (trace_id TEXT PRIMARY KEY, session_id TEXT, data TEXT)")
    for one in traces:
        db.execute("INSERT INTO traces VALUES (?, ?, ?)", (one.trace_id, one.session_id, as_json(one)))
        db.commit()
    db.close()


async def our_store(path: Path, traces: list[Trace], at_once: int, cost: Cost, lasting_s: float = 0.0) -> None:
    """Calls that last so long: longer than a moment, their running rows are written apart from their ends."""
    store = Store.open(path, gateway_id="bench")
    with cost:
        for start in range(0, len(traces), at_once):
            part = traces[start : start + at_once]
            for one in part:
                store.begin(one, Session(one.session_id, one.started_at, implicit=True))
            if lasting_s:
                await asyncio.sleep(lasting_s)
            await asyncio.gather(*(store.finish(one, timeout=30) for one in part))
    await store.close()


async def read_all(path: Path, session_id: str, cost: Cost) -> int:
    store = Store.open(path, gateway_id="bench")
    with cost:
        page = await store.traces(TraceQuery(session_id=session_id))
    await store.close()
    return len(page.items)


def empty_bytes(path: Path) -> int:
    """Of a database with nothing in it."""
    open_database(path).close()
    return path.stat().st_size


class Cost:
    """CPU and wall seconds of a block, all threads."""

    def __enter__(self) -> Cost:
        self.cpu, self.wall = time.process_time(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.cpu, self.wall = time.process_time() - self.cpu, time.perf_counter() - self.wall


def report(name: str, traces: int, ours: Cost, plain: Cost, ours_bytes: int, plain_bytes: int) -> None:
    print(f"{name}, {traces} traces")
    for label, cost, size in (("rollout-gateway", ours, ours_bytes), ("JSON a trace", plain, plain_bytes)):
        print(
            f"  {label:<16} CPU {cost.cpu / traces * 1e3:7.3f} ms a trace   {traces / cost.wall:8.0f} traces/s"
            f"   {size / traces / 1e3:8.2f} KB a trace   {size / 1e3:9.1f} KB"
        )
    print(f"  ratios           CPU 1/{plain.cpu / ours.cpu:.1f}   bytes 1/{plain_bytes / ours_bytes:.1f}")


def measure(name: str, folder: Path, traces: list[Trace], at_once: int, lasting_s: float = 0.0) -> Path:
    ours, plain = Cost(), Cost()
    path, plain_path = folder / f"{new_id()}.db", folder / f"{new_id()}.db"
    asyncio.run(our_store(path, traces, at_once, ours, lasting_s))
    with plain:
        json_store(plain_path, traces)
    size = path.stat().st_size - empty_bytes(folder / f"{new_id()}.db")
    report(name, len(traces), ours, plain, size, plain_path.stat().st_size)
    return path


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    corpus = Corpus.read()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(our_store(folder / "warm.db", single_calls(corpus, 10), 10, Cost()))
        singles = single_calls(corpus, count)
        measure("1,000 + 200 ids, 64 at once, short calls", folder, singles, 64)
        measure("1,000 + 200 ids, 64 at once, calls of 50 ms", folder, singles, 64, 0.05)
        measure("1,000 + 200 ids, 16 at once, short calls", folder, singles, 16)
        measure("1,000 + 200 ids, one at a time, short calls", folder, singles[: count // 4], 1)
        sessions = [one for number in range(10) for one in growing_session(corpus, f"session-{number}")]
        path = measure(f"10 sessions of {TURNS} turns to {SESSION_TOKENS} tokens", folder, sessions, 1)
        reading = Cost()
        read = asyncio.run(read_all(path, "session-5", reading))
        print(f"  a session read   CPU {reading.cpu / read * 1e3:7.3f} ms a trace")


if __name__ == "__main__":
    main()
