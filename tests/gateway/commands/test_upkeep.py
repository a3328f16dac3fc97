"""`db prune` and `db sizes`, on a file and over a gateway's answers."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from adapters.schema import Session
from gateway.api.storage import Prune
from gateway.commands.errors import CommandFailed
from gateway.commands.remote import Remote
from gateway.commands.screen import Screen
from gateway.commands.upkeep import Direct, Gateway, Keeper, prune, sizes
from storage.store import Store
from tests.gateway.api.harness import trace

MONTH = Prune(older_than=30 * 86_400)


def sure(what: str) -> bool:
    return True


def unsure(what: str) -> bool:
    return False


class Shown:
    """What a command wrote."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.out, self.noted = io.StringIO(), io.StringIO()
        self.screen = Screen(Console(file=self.out, width=200), Console(file=self.noted, width=200), as_json)

    def prune(self, keeper: Keeper, asked: Prune = MONTH, answer: object = sure) -> str:
        assert callable(answer)
        prune(keeper, asked, self.screen, sure=answer)
        return self.out.getvalue()


@pytest.fixture
async def url(tmp_path: Path) -> str:
    """A database with one old session, and one of today."""
    url = f"sqlite:///{tmp_path / 'rollouts.db'}"
    store = Store.open(url, gateway_id="g")
    for number, days in enumerate((31, 0)):
        then = datetime.now(UTC) - timedelta(days=days)
        one = trace(number, session_id=f"s{number}", started_at=then)
        store.begin(one, Session(one.session_id, then, run_id="r"))
        await store.finish(one, timeout=10)
        await store.change_session(one.session_id, status="finished", finished_at=then)
    await store.close()
    return url


def test_a_file_is_pruned_after_a_question(url: str) -> None:
    asked: list[str] = []

    def no(what: str) -> bool:
        asked.append(what)
        return False

    shown = Shown()
    assert shown.prune(Direct(url), answer=no) == ""
    assert shown.noted.getvalue() == "Nothing was deleted.\n"
    assert asked[0].startswith("1 sessions with 1 traces, ")
    assert asked[0].endswith("; 1 of them no consumer has acknowledged")
    assert Shown().prune(Direct(url)).startswith("Deleted: 1 sessions with 1 traces, ")
    assert Shown().prune(Direct(url), answer=unsure) == "Deleted: 0 sessions with 0 traces, 0 bytes.\n"


def test_a_dry_run_asks_nothing_and_deletes_nothing(url: str) -> None:
    dry = MONTH.model_copy(update={"dry_run": True})
    assert Shown().prune(Direct(url), dry, unsure).startswith("Would go: 1 sessions")
    assert Shown().prune(Direct(url)).startswith("Deleted: 1 sessions")


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="there is no file"):
        sizes(Direct(f"sqlite:///{tmp_path / 'mistyped.db'}"), Shown().screen)
    assert not list(tmp_path.iterdir())


def test_sizes_are_a_line_a_run(url: str) -> None:
    shown = Shown()
    sizes(Direct(url), shown.screen)
    header, line = shown.out.getvalue().splitlines()
    assert header.split("\t") == ["RUN", "SESSIONS", "TRACES", "PAYLOADS"]
    assert line.split("\t")[:3] == ["r", "2", "2"]
    assert shown.noted.getvalue().startswith("The database takes ")


def test_as_json_they_are_what_the_api_tells(url: str) -> None:
    shown = Shown(as_json=True)
    sizes(Direct(url), shown.screen)
    told = json.loads(shown.out.getvalue())
    assert told["runs"][0]["sessions"] == 2


async def test_a_file_that_a_gateway_has_open_is_left_to_it(url: str) -> None:
    store = Store.open(url, gateway_id="g")
    try:
        with pytest.raises(CommandFailed, match=r"--url http://127\.0\.0\.1:9090"):
            Direct(url).prune(MONTH)
    finally:
        await store.close()


def test_a_gateway_is_asked_until_nothing_is_left() -> None:
    bodies: list[dict[str, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        bodies.append(body)
        done = {"sessions": 2, "traces": 3, "bytes": 10, "undelivered": 1, "given_back_bytes": 4}
        return httpx.Response(200, json=done | {"more": not body["dry_run"] and len(bodies) < 4})

    gateway = Gateway(Remote("http://gateway", "key", httpx.MockTransport(answer)))
    told = Shown().prune(gateway)
    assert told.startswith("Deleted: 6 sessions with 9 traces, 30 bytes; 3 of them no consumer has acknowledged.")
    assert [body["dry_run"] for body in bodies] == [True, False, False, False]
    assert bodies[0]["older_than"] == MONTH.older_than
