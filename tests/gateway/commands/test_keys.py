"""`keys create`, `list` and `revoke`: in the database for the very first, and through the gateway that it lets in."""

from __future__ import annotations

import asyncio
import io
import sqlite3
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from gateway.api.keys import NewKey
from gateway.commands.errors import CommandFailed
from gateway.commands.keys import Direct, Gateway, create, show
from gateway.commands.remote import Remote
from gateway.commands.screen import Screen
from storage.scopes import SCOPES
from tests.gateway.harness import Running, gateway

ROOT = NewKey(name="root", scopes=SCOPES)


def screen(*, as_json: bool = False) -> tuple[Screen, io.StringIO, io.StringIO]:
    output, notes = io.StringIO(), io.StringIO()
    return Screen(Console(file=output, width=200), Console(file=notes, width=200), as_json), output, notes


async def test_the_first_is_made_in_the_database_and_makes_the_others_over_http(tmp_path: Path) -> None:
    place = f"sqlite:///{tmp_path / 'rollouts.db'}"
    shown, output, notes = screen()
    create(Direct(place), ROOT, shown)
    root = output.getvalue().strip()
    assert root.startswith("rgk-")
    assert root not in notes.getvalue()
    async with gateway(tmp_path) as served:
        made, revoked = await _over_http(served, root)
        assert made.split("\t")[1:4] == ["trainer", "trace:read,reward:write", "good"]
        assert revoked.split("\t")[3] == "revoked"
        told = (await served.agent.get("/api/admin/audit", headers={"x-api-key": root})).json()["items"]
    assert [(each["by"], each["action"], each["outcome"]) for each in told] == [
        (told[0]["by"], "DELETE /api/admin/keys/{key_id}", "done"),
        (told[0]["by"], "DELETE /api/admin/keys/{key_id}", "done"),
        (told[0]["by"], "POST /api/admin/keys", "done"),
        ("command", "keys create", "done"),
    ]
    assert {each["target"] for each in told[:3]} == {made.split("\t")[0]}
    assert told[3]["target"] == told[0]["by"]


async def _over_http(served: Running, root: str) -> tuple[str, str]:
    """The lines of a key in the list, before and after it is revoked."""
    keeper = Gateway(Remote(served.url, root))
    shown, output, _ = screen()
    asked = NewKey(name="trainer", scopes=("reward:write", "trace:read"))
    await asyncio.to_thread(create, keeper, asked, shown)
    lists = []
    for _ in range(2):
        shown, output, _ = screen()
        await asyncio.to_thread(show, keeper, shown)
        lists.append(output.getvalue().splitlines()[-1])
        await asyncio.to_thread(keeper.revoke, lists[0].split("\t")[0])
    return lists[0], lists[1]


async def test_what_may_not_be_made_is_a_sentence(tmp_path: Path) -> None:
    async with gateway(tmp_path, admin_key="admin") as served:
        for key, says in ((None, "No key was sent"), ("rgk-wrong", "not one of this gateway's")):
            with pytest.raises(CommandFailed, match=says):
                await asyncio.to_thread(Gateway(Remote(served.url, key)).create, ROOT)
        with pytest.raises(CommandFailed, match="Key none does not exist"):
            await asyncio.to_thread(Gateway(Remote(served.url, "admin")).revoke, "none")
        with pytest.raises(CommandFailed, match=r"--database\. Or ask that gateway itself"):
            Direct(f"sqlite:///{served.database}").every()


def test_in_the_database_they_are_listed_and_revoked_too(tmp_path: Path) -> None:
    keeper = Direct(f"sqlite:///{tmp_path / 'rollouts.db'}")
    made = [keeper.create(NewKey(name=f"key {number}", scopes=("infer",))) for number in range(3)]
    keeper.revoke(made[1].key_id)
    shown, output, _ = screen(as_json=True)
    show(keeper, shown)
    told = msgspec.json.decode(output.getvalue())["items"]
    assert [each["name"] for each in told] == ["key 0", "key 1", "key 2"]
    assert [each["revoked_by"] for each in told] == [None, "command", None]
    assert not any(each.key in output.getvalue() for each in made)
    with pytest.raises(CommandFailed, match="does not exist"):
        keeper.revoke("none")
    with sqlite3.connect(tmp_path / "rollouts.db") as db:
        assert db.execute("select count(*) from audit").fetchone() == (4,)
