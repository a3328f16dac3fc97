"""`sessions` and `traces`: what a running gateway has recorded, read over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

import msgspec

from gateway.commands.remote import Filters, Page, Remote, decode
from gateway.commands.screen import Screen
from gateway.commands.table import Column, printable

# A table counts ids; everything else that is large stays where it is.
_LISTED = (
    "trace_id,session_id,status,fidelity,started_at,turn,engine,plan,duration_ms,prompt_token_ids,choices.token_ids"
)


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


@dataclass(frozen=True, slots=True)
class Reader:
    """A running gateway's `/api`, and where to show what it says."""

    remote: Remote
    screen: Screen

    def sessions(self, filters: Filters) -> None:
        body = self.remote.get("/api/sessions", filters)
        if self.screen.as_json:
            return self.screen.json(body)
        page = decode(body, Page[SessionRow])
        rows = page.items
        columns = (
            Column("session", 0, tuple(row.session_id for row in rows)),
            Column("status", 1, tuple(row.status for row in rows)),
            Column("created", 2, tuple(row.created_at[:19].replace("T", " ") for row in rows)),
            Column("run", 3, tuple(row.run_id for row in rows)),
            Column("group", 4, tuple(row.group_id for row in rows)),
            Column("backend", 5, tuple(row.backend for row in rows)),
        )
        return self._show(columns, page.next, page.complete)

    def session(self, session_id: str) -> None:
        self.screen.json(self.remote.get(f"/api/sessions/{quote(session_id, safe='')}", {}))

    def traces(self, filters: Filters) -> None:
        if self.screen.as_json:
            return self.screen.json(self.remote.get("/api/traces", filters))
        body = self.remote.get("/api/traces", {**filters, "fields": _LISTED})
        page = decode(body, Page[TraceRow])
        rows = page.items
        columns = (
            Column("trace", 0, tuple(row.trace_id for row in rows)),
            Column("session", 3, tuple(row.session_id for row in rows)),
            Column("turn", 6, tuple(_text(row.turn) for row in rows)),
            Column("engine", 7, tuple(row.engine for row in rows)),
            Column("plan", 8, tuple(row.plan for row in rows)),
            Column("status", 2, tuple(row.status for row in rows)),
            Column("fidelity", 1, tuple(row.fidelity for row in rows)),
            Column("prompt", 5, tuple(_count(row.prompt_token_ids) for row in rows)),
            Column("sampled", 4, tuple(" + ".join(_count(choice.token_ids) for choice in row.choices) for row in rows)),
            Column("ms", 9, tuple(_text(row.duration_ms and round(row.duration_ms)) for row in rows)),
        )
        return self._show(columns, page.next, page.complete)

    def trace(self, trace_id: str) -> None:
        body = self.remote.get(f"/api/traces/{quote(trace_id, safe='')}", {})
        if self.screen.as_json:
            return self.screen.json(body)
        row = decode(body, TraceRow)
        facts = [
            ("trace_id", row.trace_id),
            ("session_id", row.session_id),
            ("turn", _text(row.turn)),
            ("started_at", row.started_at),
            ("duration_ms", _text(row.duration_ms and round(row.duration_ms, 1))),
            ("status", row.status),
            ("model", _text(row.model)),
            ("engine", _text(row.engine)),
            ("plan", _text(row.plan)),
            ("fidelity", _because(row.fidelity, row.fidelity_reason)),
            ("logprobs", _because(row.logprobs_fidelity or "none", row.logprobs_reason)),
            ("prompt_token_ids", _ids(row.prompt_token_ids)),
        ]
        for number, choice in enumerate(row.choices):
            facts.append((f"choice {number}", f"finish_reason {_text(choice.finish_reason)}"))
            facts.append(("  token_ids", _ids(choice.token_ids)))
            facts.extend((f"  {name}", text) for name in ("reasoning", "text") if (text := getattr(choice, name)))
        for name, fact in facts:
            # What a model said may have lines, and must not reach the terminal as anything but text.
            self.screen.line(f"{name:<18}" + "\n".join(map(printable, fact.expandtabs().split("\n"))))
        return None

    def _show(self, columns: Sequence[Column], following: str | None, complete: bool) -> None:
        self.screen.table(columns)
        if following is not None:
            self.screen.note(f"There is more, and newer: --cursor {following}")
        self.screen.note_incomplete(complete=complete)


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _count(ids: list[int] | None) -> str:
    """How many ids; nothing where none were told, for that is not 0."""
    return "–" if ids is None else str(len(ids))


def _ids(ids: list[int] | None) -> str:
    return "not told" if ids is None else f"{len(ids)}: {' '.join(map(str, ids))}"


def _because(word: str, reason: str | None) -> str:
    return f"{word}: {reason}" if reason else word
