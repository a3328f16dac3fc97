"""The backends at run time: who may be asked, who is down for how long, and when one is asked anew what it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import pytest

from adapters.server import Server
from gateway.backend import Backend
from gateway.backends import BackendExists, Backends, ModelNotServed, NoBackend, NotUnderstood, UnknownBackend
from gateway.candidates import candidates_for
from gateway.settings import BackendSettings
from gateway.upstream import NothingSent, TimedOut, UpstreamError


@dataclass
class Servers:
    """What each backend is by its name, or why it can't be asked; and a clock that a test moves."""

    said: dict[str, Server | Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    now: float = 100.0

    async def detect(self, backend: Backend) -> Server:
        self.asked.append(backend.name)
        await asyncio.sleep(0)
        said = self.said[backend.name]
        if isinstance(said, Exception):
            raise said
        return said

    def clock(self) -> float:
        return self.now


@pytest.fixture
async def servers() -> AsyncIterator[Servers]:
    return Servers()


def backends(servers: Servers, *named: str) -> Backends:
    return Backends([Backend(BackendSettings.parse(f"http://{text}")) for text in named], servers, clock=servers.clock)


def vllm(*models: str) -> Server:
    return Server("vllm", "0.33.0", models=models, known="detected")


def refused(name: str) -> NothingSent:
    return NothingSent(name, "connection refused")


def names(found: Iterable[Backend]) -> set[str]:
    return {backend.name for backend in found}


# Which there are.


async def test_a_name_is_one_backends_alone(servers: Servers) -> None:
    known = backends(servers, "a")
    with pytest.raises(BackendExists, match="named `a` exists already"):
        known.add(Backend(BackendSettings(url="http://other", name="a")))
    assert known.remove("a").name == "a"
    with pytest.raises(UnknownBackend, match="no backend named `a`"):
        known.get("a")


# Which may be asked.


async def test_without_any_backend_there_are_no_candidates(servers: Servers) -> None:
    with pytest.raises(NoBackend):
        backends(servers).candidates("s", "m", None)


async def test_one_that_has_not_told_its_models_may_serve_any(servers: Servers) -> None:
    known = backends(servers, "a", "b,models=other")
    assert names(known.candidates("s", "m", None)) == {"a"}


@pytest.mark.parametrize(("model", "serving"), [("m", {"a"}), ("qwen-3", {"b"}), (None, {"a", "b"})])
async def test_a_model_is_asked_of_those_that_serve_it(servers: Servers, model: str | None, serving: set[str]) -> None:
    known = backends(servers, "a", "b,models=qwen*")
    servers.said = {"a": vllm("m"), "b": vllm("a-name-of-its-own")}
    await known.know_all()
    assert names(known.candidates("s", model, None)) == serving


async def test_a_model_that_nobody_serves_is_told_with_those_that_are(servers: Servers) -> None:
    known = backends(servers, "a", "b")
    servers.said = {"a": vllm("m"), "b": vllm("m", "n")}
    await known.know_all()
    with pytest.raises(ModelNotServed, match=r"`x` is not served by any backend. Served: `m`, `n`"):
        known.candidates("s", "x", None)


async def test_one_that_is_down_comes_last_even_where_the_session_is_pinned_to_it(servers: Servers) -> None:
    known = backends(servers, "a", "b", "c")
    assert next(known.candidates("s", None, "b")).name == "b"
    known.refused(known.get("b"), "gone")
    assert [*known.candidates("s", None, "b")][-1].name == "b"


# How long one is down.


async def test_the_pause_doubles_with_each_failure_in_a_row_up_to_half_a_minute(servers: Servers) -> None:
    known = backends(servers, "a")
    backend = known.get("a")
    for pause in (1, 2, 4, 8, 16, 30, 30):
        known.refused(backend, "gone")
        servers.now += pause - 0.1
        assert known.is_down(backend)
        servers.now += 0.1
        assert known.health(backend) == "half_open"


async def test_a_server_that_is_away_for_a_week_is_no_number_too_large(servers: Servers) -> None:
    known = backends(servers, "a")
    backend = known.get("a")
    for _ in range(2_000):
        known.refused(backend, "gone")
        servers.now += 30
    assert (backend.pulse.failures, backend.pulse.pause) == (2_000, 30)


async def test_it_is_up_again_when_the_pause_is_over_and_at_once_when_it_answers(servers: Servers) -> None:
    known = backends(servers, "a")
    backend = known.get("a")
    known.refused(backend, "gone")
    assert known.is_down(backend)
    assert backend.pulse.last_error == "gone"
    servers.now += 1.0
    assert not known.is_down(backend)
    known.refused(backend, "gone")
    known.answered(backend)
    assert not known.is_down(backend)
    assert (backend.calls, backend.pulse.failures, backend.pulse.last_error) == (1, 0, None)


# What each is.


async def test_what_a_backend_is_is_asked_once_for_all_who_wait(servers: Servers) -> None:
    known = backends(servers, "a")
    servers.said = {"a": vllm("m")}
    told = await asyncio.gather(*(known.server(known.get("a")) for _ in range(5)))
    assert told == [vllm("m")] * 5
    await known.know_all()
    assert servers.asked == ["a"]


async def test_one_that_waits_and_leaves_takes_the_answer_from_nobody(servers: Servers) -> None:
    known = backends(servers, "a")
    servers.said = {"a": vllm("m")}
    leaving, staying = (asyncio.create_task(known.server(known.get("a"))) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await staying == vllm("m")
    assert servers.asked == ["a"]


async def test_one_that_cannot_be_asked_is_down_and_the_others_are_known(servers: Servers) -> None:
    known = backends(servers, "a", "b")
    servers.said = {"a": refused("a"), "b": vllm("m")}
    await known.know_all()
    a, b = known.all()
    assert (known.is_down(a), a.pulse.last_error, a.server) == (True, "connection refused", None)
    assert (known.is_down(b), b.server) == (False, vllm("m"))
    await known.know_all()
    assert servers.asked == ["a", "b"], "one that is down is left in peace"


async def test_whatever_goes_wrong_with_one_answer_marks_that_backend_alone_and_is_logged(
    servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    known = backends(servers, "a", "b")
    servers.said = {"a": LookupError("nothing of the kind"), "b": vllm("m")}
    await known.know_all()
    a = known.get("a")
    assert known.is_down(a)
    assert a.pulse.last_error == "what it is could not be found out: nothing of the kind"
    assert names([next(known.candidates("s", "m", None))]) == {"b"}
    assert "LookupError: nothing of the kind" in caplog.text
    with pytest.raises(NotUnderstood) as caught:
        await known.server(a)
    assert isinstance(caught.value, UpstreamError), "a call tries another backend then"


async def test_after_a_failure_it_is_asked_anew_for_it_may_be_another_program(servers: Servers) -> None:
    known = backends(servers, "a")
    servers.said = {"a": vllm("m")}
    await known.know_all()
    known.refused(known.get("a"), "gone")
    servers.now += 1.0
    servers.said = {"a": Server("sglang", models=("n",))}
    await known.know_all()
    assert known.get("a").server == Server("sglang", models=("n",))


async def test_an_error_of_a_servers_own_has_it_asked_anew_though_not_each_time(servers: Servers) -> None:
    known = backends(servers, "a")
    servers.said = {"a": vllm("m")}
    await known.know_all()
    known.doubt(known.get("a"))
    assert known.get("a").server == vllm("m")
    servers.now += 5.0
    known.doubt(known.get("a"))
    await known.know_all()
    assert servers.asked == ["a", "a"]


async def test_a_probe_asks_at_once(servers: Servers) -> None:
    known = backends(servers, "a")
    servers.said = {"a": vllm("m")}
    await known.know_all()
    servers.said = {"a": vllm("n")}
    assert await known.ask_again(known.get("a")) == vllm("n")


async def test_an_unknown_model_has_all_asked_anew_but_not_more_often_than_each_five_seconds(servers: Servers) -> None:
    known = backends(servers, "a", "b")
    servers.said = {"a": vllm("m"), "b": refused("b")}
    await known.ask_models_again()
    await known.ask_models_again()
    assert servers.asked == ["a", "b"]
    servers.now += 5.0
    servers.said["a"] = vllm("m", "new")
    known.refused(known.get("b"), "still gone")
    await known.ask_models_again()
    assert servers.asked == ["a", "b", "a"], "one that is down is not waited for"
    assert names(known.candidates("s", "new", None)) >= {"a"}


async def test_one_that_is_too_busy_to_say_what_it_is_is_what_it_was(servers: Servers) -> None:
    """docs/promises.md F7."""
    known = backends(servers, "a")
    servers.said = {"a": vllm("m")}
    await known.know_all()
    servers.now += 5.0
    known.doubt(known.get("a"))
    servers.said = {"a": TimedOut("a", "no answer to /v1/models within 2 s")}
    await known.know_all()
    a = known.get("a")
    assert (a.server, known.health(a), a.pulse.slow) == (vllm("m"), "up", True)


# Who gets the next call.


async def test_a_session_that_has_a_backend_waits_for_no_other_to_say_what_it_is(servers: Servers) -> None:
    known = backends(servers, "a", "b")
    known.get("a").server = vllm("m")
    assert next(await candidates_for(known, "s", "m", "a")).name == "a"
    assert servers.asked == []


async def test_for_one_that_has_failed_nobody_waits_while_there_are_others(servers: Servers) -> None:
    known = backends(servers, "a", "b")
    servers.said = {"a": vllm("m"), "b": refused("b")}
    await known.know_all()
    servers.now += 60.0
    assert known.health(known.get("b")) == "half_open"
    await known.know_all()
    assert servers.asked == ["a", "b"]


async def test_a_half_open_one_takes_one_call_at_a_time(servers: Servers) -> None:
    known = backends(servers, "a", "b")
    a = known.get("a")
    known.refused(a, "gone")
    servers.now += 1.0
    session = next(f"s{at}" for at in range(100) if next(known.candidates(f"s{at}", None, None)) is a)
    known.began(a, session)
    assert [each.name for each in known.candidates(session, None, None)] == ["b", "a"]
    known.tried(a)
    known.ended(a, session)
    assert known.health(a) == "half_open"
    known.answered(a)
    assert known.health(a) == "up"


async def test_one_that_is_slow_gets_no_new_session_and_keeps_its_own(servers: Servers) -> None:
    known = backends(servers, "a", "b")
    known.get("a").pulse.kept_waiting("no answer to /health within 2 s")
    assert {next(known.candidates(f"s{at}", None, None)).name for at in range(20)} == {"b"}
    assert next(known.candidates("s", None, "a")).name == "a"


async def test_what_a_server_said_while_its_address_was_changed_is_not_taken_for_the_new_ones_word(
    servers: Servers,
) -> None:
    known = backends(servers, "a")
    a = known.get("a")
    servers.said = {"a": vllm("m")}
    asked = asyncio.create_task(known.server(a))
    while not servers.asked:
        await asyncio.sleep(0)
    a.become(BackendSettings(url="http://other", name="a"))
    servers.said = {"a": vllm("n")}
    assert await asked == vllm("n")
    assert servers.asked == ["a", "a"]
