"""`samples`: the training samples of a session, or of ended sessions in the order of their ends, a line each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from gateway.commands.remote import Filters, Page, Remote
from gateway.commands.screen import Screen
from gateway.commands.table import Column

# Arrays as base64: a table counts what is in them.
_PACKED: Final = "packed"


class _Finding(msgspec.Struct):
    code: str
    fatal: bool


class _Row(msgspec.Struct):
    """What the table shows of a sample."""

    session_id: str
    branch: int
    token_ids: bytes
    mask: bytes
    weight: float
    reward: float | None = None
    run_id: str | None = None
    group_id: str | None = None
    findings: list[_Finding] = []


@dataclass(frozen=True, slots=True)
class Samples:
    """A running gateway's samples, and where to show them."""

    remote: Remote
    screen: Screen

    def show(self, session_id: str | None, filters: Filters) -> None:
        """Raises CannotRead."""
        path = "/api/samples" if session_id is None else f"/api/sessions/{quote(session_id, safe='')}/samples"
        if self.screen.as_json:
            return self.screen.json(self.remote.get(path, filters))
        page = self.remote.read(path, {**filters, "shape": _PACKED}, Page[_Row])
        self.screen.table(_columns(page.items))
        if page.next is not None and page.items:
            self.screen.note(f"There is more, or will be: --cursor {page.next}")
        return self.screen.note_incomplete(complete=page.complete)


def _columns(rows: list[_Row]) -> tuple[Column, ...]:
    return (
        Column("session", 0, tuple(row.session_id for row in rows)),
        Column("branch", 1, tuple(str(row.branch) for row in rows)),
        Column("run", 6, tuple(row.run_id for row in rows)),
        Column("group", 7, tuple(row.group_id for row in rows)),
        Column("tokens", 3, tuple(str(len(row.token_ids) // 4) for row in rows)),
        Column("trained", 2, tuple(str(row.mask.count(1)) for row in rows)),
        Column("reward", 4, tuple("–" if row.reward is None else f"{row.reward:g}" for row in rows)),
        Column("weight", 5, tuple(f"{row.weight:.3g}" for row in rows)),
        Column("findings", 8, tuple(" ".join(map(_told, row.findings)) for row in rows)),
    )


def _told(finding: _Finding) -> str:
    return f"{finding.code}!" if finding.fatal else finding.code
