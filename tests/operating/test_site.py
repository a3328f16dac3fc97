"""A backend that is killed refuses, one that hangs says nothing, and both answer when they are back."""

from __future__ import annotations

import time

import httpx
import pytest

from gateway.scripted import free_port
from tests.faults.backend import Engine
from tests.operating.fleet import Fleet
from tests.operating.site import Site

_ASKED = {"model": "scripted", "messages": [{"role": "user", "content": "1"}]}


async def ask(site: Site, seconds: float = 5.0) -> int:
    async with httpx.AsyncClient(timeout=seconds, trust_env=False) as client:
        answer = await client.post(f"{site.url}/v1/chat/completions", json=_ASKED, headers={"x-request-id": "1"})
    return answer.status_code


async def test_a_site_that_is_killed_refuses_and_is_back_at_the_same_address() -> None:
    site = Site("a", Engine(), free_port())
    await site.come_up()
    assert await ask(site) == 200
    await site.die()
    with pytest.raises(httpx.ConnectError):
        await ask(site)
    await site.come_up()
    assert await ask(site) == 200
    assert site.life.failed(0.0, time.monotonic())
    await site.leave()


async def test_a_site_that_hangs_takes_a_call_and_says_nothing_until_it_goes_on() -> None:
    site = Site("a", Engine(), free_port())
    await site.come_up()
    site.hang()
    with pytest.raises(httpx.ReadTimeout):
        await ask(site, 0.2)
    assert site.begun == set()
    site.go_on()
    assert await ask(site) == 200
    assert (site.begun, site.in_flight) == ({1}, 0)
    await site.leave()


async def test_a_site_that_is_killed_while_it_hangs_breaks_the_connections_that_it_took() -> None:
    site = Site("a", Engine(), free_port())
    await site.come_up()
    site.hang()
    with pytest.raises(httpx.ReadTimeout):
        await ask(site, 0.2)
    await site.die()
    with pytest.raises(httpx.ConnectError):
        await ask(site)
    assert site.begun == set()


def test_no_two_backends_say_an_answer_with_the_same_logprobs() -> None:
    """Or a call that was tried at both could not be told from what the first had said of it."""
    made = Fleet([], {}, [], {})
    one, two = made.new().engine, made.new().engine
    assert len({next(one.serials), next(two.serials), next(one.serials)}) == 3
