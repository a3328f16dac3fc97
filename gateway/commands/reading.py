"""`sessions` and `traces`: what a running gateway has recorded, read over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from rich.console import Console
from rich.table import Table

from gateway.commands.errors import CommandFailed

Item = TypeVar("Item")

# A table counts ids; everything else that is large stays where it is.
_LISTED = (
    "trace_id,session_id,status,fidelity,started_at,turn,engine,plan,duration_ms,prompt_token_ids,choices.token_ids"
)


class CannotRead(CommandFailed):
    """The gateway gave no answer that can be shown; the message says why."""


class SessionRow(msgspec.Struct):
    """What the table shows of a session."""

    session_id: str
    status: str
    created_at: str
    run_id: str | None = None
    group_id: str | None = None
    backend: str | None = None


class ChoiceRow(msgspec.Struct):
    token_ids: list[int] | None = None
    text: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None


class TraceRow(msgspec.Struct):
    """What the tables show of a trace."""

    trace_id: str
    session_id: str
    status: str
    fidelity: str
    started_at: str
    turn: int | None = None
    model: str | None = None
    engine: str | None = None
    backend: str | None = None
    plan: str | None = None
    fidelity_reason: str | None = None
    logprobs_fidelity: str | None = None
    logprobs_reason: str | None = None
    duration_ms: float | None = None
    prompt_token_ids: list[int] | None = None
    choices: list[ChoiceRow] = []


class Page(msgspec.Struct, Generic[Item]):
    items: list[Item]
    next: str | None = None
    complete: bool = True


class _Problem(msgspec.Struct):
    """RFC 9457, as far as it is told."""

    title: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """A running gateway's `/api`, and where to show what it says."""

    url: str
    key: str | None
    console: Console
    as_json: bool
    transport: httpx.BaseTransport | None = None

    def sessions(self, filters: Mapping[str, str | int]) -> None:
        body = self._get("/api/sessions", filters)
        if self.as_json:
            return self._print(body)
        page = _decode(body, Page[SessionRow])
        table = _table("session", "status", "created", "run", "group", "backend")
        for row in page.items:
            created = row.created_at[:19].replace("T", " ")
            table.add_row(row.session_id, row.status, created, row.run_id, row.group_id, row.backend)
        return self._show(table, page.next, page.complete)

    def session(self, session_id: str) -> None:
        self._print(self._get(f"/api/sessions/{quote(session_id, safe='')}", {}))

    def traces(self, filters: Mapping[str, str | int]) -> None:
        if self.as_json:
            return self._print(self._get("/api/traces", filters))
        body = self._get("/api/traces", {**filters, "fields": _LISTED})
        page = _decode(body, Page[TraceRow])
        table = _table("trace", "session", "turn", "engine", "plan", "status", "fidelity", "prompt", "sampled", "ms")
        for row in page.items:
            table.add_row(
                row.trace_id,
                row.session_id,
                _text(row.turn),
                row.engine,
                row.plan,
                row.status,
                row.fidelity,
                _count(row.prompt_token_ids),
                " + ".join(_count(choice.token_ids) for choice in row.choices),
                _text(row.duration_ms and round(row.duration_ms)),
            )
        return self._show(table, page.next, page.complete)

    def trace(self, trace_id: str) -> None:
        body = self._get(f"/api/traces/{quote(trace_id, safe='')}", {})
        if self.as_json:
            return self._print(body)
        row = _decode(body, TraceRow)
        table = Table.grid(padding=(0, 2))
        for name in (
            "trace_id",
            "session_id",
            "turn",
            "started_at",
            "duration_ms",
            "status",
            "model",
            "engine",
        ):
            table.add_row(name, _text(getattr(row, name)))
        table.add_row("plan", _text(row.plan))
        table.add_row("fidelity", _because(row.fidelity, row.fidelity_reason))
        table.add_row("logprobs", _because(row.logprobs_fidelity or "none", row.logprobs_reason))
        table.add_row("prompt_token_ids", _ids(row.prompt_token_ids))
        for number, choice in enumerate(row.choices):
            table.add_row(f"choice {number}", f"finish_reason {_text(choice.finish_reason)}")
            table.add_row("  token_ids", _ids(choice.token_ids))
            for name, text in (("  reasoning", choice.reasoning), ("  text", choice.text)):
                if text:
                    table.add_row(name, text)
        self.console.print(table, markup=False, highlight=False)
        return None

    def _get(self, path: str, filters: Mapping[str, str | int]) -> bytes:
        headers = {"authorization": f"Bearer {self.key}"} if self.key else {}
        try:
            with httpx.Client(base_url=self.url, headers=headers, transport=self.transport, trust_env=False) as client:
                answer = client.get(path, params=filters, timeout=60)
        except httpx.TransportError as exc:
            raise CannotRead(f"no gateway answers at {self.url}: {exc}; --url says where it is") from exc
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as exc:
            raise CannotRead(f"{self.url} is no URL of a gateway: {exc}") from exc
        if answer.status_code == 401:
            raise CannotRead(f"{_reason(answer.content)} Here: by ROLLOUT_GATEWAY_API_KEY in the environment.")
        if answer.status_code != 200:
            raise CannotRead(f"{self.url}{path} answers {answer.status_code}: {_reason(answer.content)}")
        return answer.content

    def _print(self, body: bytes) -> None:
        self.console.print(msgspec.json.format(body, indent=2).decode(), markup=False, highlight=False, soft_wrap=True)

    def _show(self, table: Table, following: str | None, complete: bool) -> None:
        self.console.print(table, highlight=False)
        if following is not None:
            self.console.print(f"There is more: --cursor {following}", markup=False, soft_wrap=True)
        if not complete:
            self.console.print("Not complete yet: a gateway still has traces in its spool.")


def _decode(body: bytes, shape: type[Item]) -> Item:
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.DecodeError as exc:
        raise CannotRead(f"this is not an answer of a rollout-gateway: {exc}") from exc


def _reason(body: bytes) -> str:
    try:
        problem = msgspec.json.decode(body, type=_Problem)
    except msgspec.DecodeError:
        return "not an answer of a rollout-gateway"
    return problem.detail or problem.title


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _count(ids: list[int] | None) -> str:
    """How many ids; nothing where none were told, for that is not 0."""
    return "–" if ids is None else str(len(ids))


def _ids(ids: list[int] | None) -> str:
    return "not told" if ids is None else f"{len(ids)}: {' '.join(map(str, ids))}"


def _because(word: str, reason: str | None) -> str:
    return f"{word}: {reason}" if reason else word
