"""A gateway as `export` sees it: a list of sessions, and parts of a file that can break off."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx
from rich.console import Console

from gateway.commands.exporting import Asked, Destination, Export
from gateway.commands.remote import Remote


@dataclass(frozen=True, slots=True)
class Ended:
    session_id: str
    ended: str
    run_id: str | None = None
    status: str = "finished"


class Broken(httpx.SyncByteStream):
    """Half of it comes, and then the connection is gone."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __iter__(self) -> Iterator[bytes]:
        yield self._content[: len(self._content) // 2]
        raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")


@dataclass
class FakeGateway:
    """Its file of a part is a line for each session."""

    sessions: list[Ended]
    breaks: list[int] = field(default_factory=list)
    """Which exports, counted from 0, break off."""
    refusal: str | None = None
    terminal: bool = False
    asked: list[dict[str, str]] = field(default_factory=list)
    shown: io.StringIO = field(default_factory=io.StringIO)
    slept: list[float] = field(default_factory=list)

    def handle(self, request: httpx.Request) -> httpx.Response:
        params = dict(request.url.params)
        if request.url.path == "/api/sessions":
            return self._list(params)
        assert request.url.path == "/api/export"
        self.asked.append(params)
        if self.refusal is not None:
            return httpx.Response(400, json={"title": "Bad Request", "detail": self.refusal})
        return self._part(params)

    def _list(self, params: dict[str, str]) -> httpx.Response:
        at = int(params.get("cursor", 0))
        items = [
            {
                "session_id": each.session_id,
                "status": each.status,
                "created_at": "2026-11-20T00:00:00Z",
                "finished_at": each.ended,
                "run_id": each.run_id,
                "metadata": {},
            }
            for each in self.sessions[at : at + 2]
            if params.get("run_id", each.run_id) == each.run_id
        ]
        following = str(at + 2) if at + 2 < len(self.sessions) else None
        return httpx.Response(200, json={"items": items, "next": following, "complete": True})

    def _part(self, params: dict[str, str]) -> httpx.Response:
        since, until = (datetime.fromisoformat(params[name]) for name in ("since", "until"))
        numbers = [
            number
            for number, each in enumerate(self.sessions, 1)
            if (each.run_id or "") == params["run_id"]
            and since <= datetime.fromisoformat(each.ended) < until
            and each.status in params.get("status", "finished")
            and number > int(params.get("cursor", 0))
        ][: int(params["limit"])]
        if not numbers:
            return httpx.Response(200)
        content = "".join(f"{self.sessions[number - 1].session_id}\n" for number in numbers).encode()
        headers = {"x-next-cursor": str(numbers[-1])}
        if len(self.asked) - 1 in self.breaks:
            return httpx.Response(200, headers=headers, stream=Broken(content))
        return httpx.Response(200, headers=headers, content=content)

    def export(
        self, destination: str, *, part: int = 2, since: datetime | None = None, of: str = "samples", **filters: str
    ) -> None:
        asked = Asked(of, "jsonl", filters, since=since)
        console = Console(file=self.shown, force_terminal=self.terminal, width=100)
        remote = Remote("http://gateway", None, httpx.MockTransport(self.handle))
        Export(remote, Destination.of(destination), asked, console, part, self.slept.append).run()


def at(day: int, hour: int = 12) -> str:
    return datetime(2026, 11, day, hour, tzinfo=UTC).isoformat()
