"""How long calls wait for a database that refuses, hangs or is slow."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from gateway.patience import Patience
from storage.errors import SessionDeleted, Unavailable


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Database:
    def __init__(self) -> None:
        self.asked = 0
        self.mode = "well"

    async def tell(self) -> str:
        self.asked += 1
        if self.mode == "refuses":
            raise Unavailable("connection refused")
        if self.mode == "hangs":
            await asyncio.Event().wait()
        return "told"


async def test_what_is_told_in_time_is_given() -> None:
    assert await Patience().wait_for(Database().tell) == "told"


async def test_a_database_that_hangs_is_given_up_after_the_limit() -> None:
    database = Database()
    database.mode = "hangs"
    started = time.monotonic()
    with pytest.raises(Unavailable, match=r"within 0\.05 s"):
        await Patience(0.05).wait_for(database.tell)
    assert 0.05 <= time.monotonic() - started < 1.0


@pytest.mark.parametrize("mode", ["refuses", "hangs"])
async def test_while_it_is_away_only_one_a_second_tries(mode: str) -> None:
    database, clock = Database(), Clock()
    patience = Patience(0.05, clock=clock)
    database.mode = mode
    for _ in range(5):
        with pytest.raises(Unavailable):
            await patience.wait_for(database.tell)
    assert database.asked == 1
    clock.now = 1.0
    tries = await asyncio.gather(*(patience.wait_for(database.tell) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(each, Unavailable) for each in tries)
    assert database.asked == 2


async def test_it_is_asked_by_all_again_once_it_has_answered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    database, clock = Database(), Clock()
    patience = Patience(0.05, clock=clock)
    database.mode = "refuses"
    with pytest.raises(Unavailable):
        await patience.wait_for(database.tell)
    database.mode, clock.now = "well", 1.0
    for _ in range(3):
        assert await patience.wait_for(database.tell) == "told"
    words = [record.message for record in caplog.records]
    assert words == ["calls go on without the database: connection refused", "the database answers again"]


async def test_what_it_says_no_to_is_an_answer() -> None:
    async def gone() -> None:
        raise SessionDeleted("s1")

    database, clock = Database(), Clock()
    patience = Patience(0.05, clock=clock)
    database.mode = "refuses"
    with pytest.raises(Unavailable):
        await patience.wait_for(database.tell)
    clock.now = 1.0
    for _ in range(2):
        with pytest.raises(SessionDeleted):
            await patience.wait_for(gone)
