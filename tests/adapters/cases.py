"""What engines have said: the recordings of running ones, and the hand-written examples with the reading expected."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from adapters.answer import AnswerReader, Outcome, Piece
from adapters.engines import adapter_for
from adapters.plan import Plan
from adapters.request import CanonicalRequest
from adapters.schema import Capture, PlanMode
from adapters.server import Server
from adapters.token_ids import TokenIds

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Recording:
    """One exchange with a running engine, as it stood on the socket."""

    name: str
    path: str
    request: Any
    status: int
    streamed: bool
    body: bytes
    """Without the framing of HTTP."""


@dataclass(frozen=True)
class Example:
    """One hand-written answer and what should be read in it."""

    file: str
    endpoint: str
    flags: dict[str, Any]
    status: int
    streamed: bool
    expected: dict[str, Any]
    body: bytes


@cache
def recordings(engine: str) -> tuple[Recording, ...]:
    return tuple(_recordings(TESTS / "recordings" / engine))


def recording(engine: str, name: str) -> Recording:
    return next(found for found in recordings(engine) if found.name == name)


@cache
def examples(*folders: str) -> tuple[Example, ...]:
    """The examples of these folders of `wire-examples`."""
    root = TESTS / "wire-examples"
    return tuple(
        Example(
            file=case["file"],
            endpoint=case["endpoint"],
            flags=case["request_flags"],
            status=case["http_status"],
            streamed=case["streaming"],
            expected=case["expected"],
            body=(root / case["file"]).read_bytes(),
        )
        for case in json.loads((root / "index.json").read_text())["cases"]
        if case["file"].split("/")[0] in folders
    )


def _recordings(folder: Path) -> Iterator[Recording]:
    for file in sorted(folder.glob("*.request.json")):
        name = file.name.removesuffix(".request.json")
        request = json.loads(file.read_text())
        head, _, rest = (folder / f"{name}.response.raw").read_bytes().partition(b"\r\n\r\n")
        head = head.lower()
        if not head:
            continue  # The server hung up without an answer.
        yield Recording(
            name=name,
            path=request["path"],
            request=request.get("body"),
            status=int(head.split()[1]),
            streamed=b"text/event-stream" in head,
            body=_without_chunks(rest) if b"transfer-encoding: chunked" in head else rest,
        )


def _without_chunks(rest: bytes) -> bytes:
    body = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body += rest[:length]
        if length == 0:
            break
        rest = rest[length + 2 :]
    return body


def canonical(body: dict[str, Any], endpoint: str = "chat") -> CanonicalRequest:
    """The request as a dialect would read it."""
    prompt = body.get("prompt")
    ids: tuple[TokenIds, ...] | None = None
    if isinstance(prompt, list) and prompt:
        if isinstance(prompt[0], int):
            ids, prompt = (TokenIds(prompt),), None
        elif isinstance(prompt[0], list):
            ids = tuple(TokenIds(one) for one in prompt)
    asked = body.get("logprobs")
    return CanonicalRequest(
        endpoint="chat" if endpoint == "chat" else "completions",
        fields=msgspec.json.decode(msgspec.json.encode(body), type=dict[str, msgspec.Raw]),
        model=body.get("model"),
        stream=body.get("stream") is True,
        include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        n=body.get("n") or 1,
        prompts=len(prompt) if isinstance(prompt, list) else 1,
        prompt_token_ids=ids,
        logprobs=bool(asked) if endpoint == "chat" else asked is not None and asked is not False,
        top_logprobs=body.get("top_logprobs"),
        return_token_ids=body.get("return_token_ids") is True,
        tools=bool(body.get("tools")) and body.get("tool_choice") != "none",
    )


def planned(
    body: dict[str, Any], server: Server, *, endpoint: str = "chat", capture: Capture = "exact"
) -> tuple[Plan, dict[str, Any]]:
    """The plan for a request, and the body that it sends."""
    plan = adapter_for(server.engine).plan(canonical(body, endpoint), server, capture)
    return plan, json.loads(plan.body)


def bare_plan(
    engine: str,
    body: dict[str, Any],
    *,
    endpoint: str = "chat",
    mode: PlanMode = "streamed",
    logprobs_asked: bool = True,
) -> Plan:
    """A plan that takes nothing out: for answers that were asked for by other means."""
    server = adapter_for(engine).server()
    return Plan(mode, "", b"{}", server, canonical(body, endpoint), logprobs_asked=logprobs_asked)


def changes(asked: dict[str, Any], upstream: dict[str, Any]) -> dict[str, Any]:
    """What a plan adds to or changes in the agent's body; null for what it removes."""
    return {key: upstream.get(key) for key in {*asked, *upstream} if upstream.get(key) != asked.get(key)}


def streamed(plan: Plan, body: bytes, *cuts: int, cut: bool = False) -> tuple[list[Piece], Outcome]:
    """The stream, fed in the parts that the cuts make of it."""
    reader = AnswerReader(plan)
    pieces: list[Piece] = []
    for start, end in zip((0, *cuts), (*cuts, len(body)), strict=True):
        pieces += reader.feed(body[start:end])
    return pieces, reader.finish(cut=cut)


def client_bytes(pieces: list[Piece], outcome: Outcome) -> bytes:
    return b"".join(piece.client for piece in pieces) + outcome.client


def chunks_of(client: bytes) -> list[Any]:
    """The chunks that a stream brought to an agent, `[DONE]` as it is."""
    data = [line.removeprefix(b"data: ") for line in client.split(b"\n") if line.startswith(b"data: ")]
    return ["[DONE]" if line == b"[DONE]" else json.loads(line) for line in data]


def cut_points(body: bytes, small: int = 3000, seed: int = 0) -> list[int]:
    """Every position of a small body; of a large one those near line ends and some at random."""
    if len(body) < small:
        return list(range(len(body) + 1))
    near = {
        position + offset
        for position, byte in enumerate(body)
        if byte == 0x0A
        for offset in (-1, 0, 1, 2)
        if 0 <= position + offset <= len(body)
    }
    return sorted(near | {random.Random(seed).randrange(len(body)) for _ in range(small // 20)})
