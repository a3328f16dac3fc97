"""What is tried again and what is not, and which error each failure is: by answers that a test writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from gateway.client import (
    ClaimExpired,
    Client,
    Conflict,
    GatewayError,
    InvalidCall,
    NotFound,
    Unauthorized,
    Unavailable,
    Unreachable,
    UnreadableAnswer,
)
from gateway.client.call import pauses

SESSION = {"session_id": "s1", "status": "open", "created_at": "2026-11-21T12:00:00Z"}
NEW = {**SESSION, "base_url": "http://g/sessions/s1/v1", "key": "rgs-1"}
BUSY = httpx.Response(503, headers={"x-should-retry": "true"}, json={"detail": "Nothing can be recorded now."})

Connect = Callable[..., Any]


class Gateway:
    """Gives one answer after another, and keeps what it was asked."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self._answers = list(answers)
        self.asked: list[httpx.Request] = []
        self.transport = httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def ok(told: object) -> httpx.Response:
    return httpx.Response(200, json=told)


def test_what_is_read_is_tried_again(connect: Connect) -> None:
    gateway = Gateway(httpx.ReadError("connection reset"), BUSY, ok(SESSION))
    assert connect(gateway.transport, retries=2).read_session("s1").session_id == "s1"
    assert len(gateway.asked) == 3


def test_a_reward_is_told_again_under_the_same_key(connect: Connect) -> None:
    gateway = Gateway(httpx.ReadError("connection reset"), ok(SESSION))
    connect(gateway.transport).reward("s1", 0.7, name="correct", weight=0.5)
    first, second = (request.content for request in gateway.asked)
    assert first == second
    assert b'"reward_id"' in first


def test_what_may_have_been_done_is_not_done_again(connect: Connect) -> None:
    gateway = Gateway(httpx.ReadError("connection reset"))
    with pytest.raises(Unreachable, match="POST /api/sessions got no answer: connection reset"):
        connect(gateway.transport).create_session()
    assert len(gateway.asked) == 1


def test_what_was_never_sent_is_tried_again_whatever_it_is(connect: Connect) -> None:
    gateway = Gateway(httpx.ConnectError("connection refused"), httpx.Response(201, json=NEW))
    assert connect(gateway.transport).create_session().id == "s1"


def test_a_503_that_does_not_ask_for_it_is_not_tried_again(connect: Connect) -> None:
    gateway = Gateway(httpx.Response(503, json={"title": "Service Unavailable", "detail": "No database."}))
    with pytest.raises(Unavailable, match="No database") as caught:
        connect(gateway.transport).read_session("s1")
    assert not isinstance(caught.value, Unreachable)
    assert len(gateway.asked) == 1


def test_the_last_failure_is_the_one_that_is_told(connect: Connect) -> None:
    gateway = Gateway(BUSY, httpx.ConnectError(""))
    with pytest.raises(Unreachable, match="GET /api/sessions/s1 got no answer: ConnectError") as caught:
        connect(gateway.transport, retries=1).read_session("s1")
    assert caught.value.status is None
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid_request", InvalidCall),
        (401, "invalid_api_key", Unauthorized),
        (403, "forbidden", Unauthorized),
        (404, "session_not_found", NotFound),
        (410, "session_deleted", NotFound),
        (409, "reward_exists", Conflict),
        (409, "claim_expired", ClaimExpired),
        (500, "internal_error", GatewayError),
        (502, "backend_unreachable", Unavailable),
    ],
)
def test_each_refusal_is_an_error_of_its_own(
    connect: Connect, status: int, code: str, kind: type[GatewayError]
) -> None:
    problem = {"title": "Title", "status": status, "detail": "A sentence.", "code": code, "request_id": "r-1"}
    gateway = Gateway(httpx.Response(status, json=problem))
    with pytest.raises(GatewayError, match="A sentence") as caught:
        connect(gateway.transport).finish_session("s1")
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.title, error.code, error.request_id) == (status, "Title", code, "r-1")


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>Welcome to nginx!</html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"session_id": "s1"}),
        httpx.Response(200, json={**SESSION, "created_at": "yesterday"}),
    ],
)
def test_an_answer_of_something_else_is_told_as_such(connect: Connect, answer: httpx.Response) -> None:
    with pytest.raises(UnreadableAnswer, match="GET /api/sessions/s1 is not"):
        connect(Gateway(answer).transport).read_session("s1")


def test_an_error_of_something_else_is_told_as_such(connect: Connect) -> None:
    with pytest.raises(NotFound, match="bare 404; is this the URL of a rollout-gateway"):
        connect(Gateway(httpx.Response(404, text="<html>")).transport).read_session("s1")


def test_what_a_newer_gateway_tells_beside_is_passed_over(connect: Connect) -> None:
    told = {**SESSION, "mood": "good", "rewards": [{"reward_id": "1", "name": "r", "value": 1, "judge": "x"}]}
    session = connect(Gateway(ok(told)).transport).read_session("s1")
    assert [reward.value for reward in session.rewards] == [1]


def test_a_name_is_one_part_of_a_path(connect: Connect) -> None:
    gateway = Gateway(ok(SESSION), ok(SESSION))
    client = connect(gateway.transport, "http://gateway/prefix/")
    client.read_session("a/../b?c")
    assert gateway.asked[0].url.raw_path == b"/prefix/api/sessions/a%2F..%2Fb%3Fc"


def test_the_key_goes_along(connect: Connect) -> None:
    gateway = Gateway(ok(SESSION))
    connect(gateway.transport, key="admin-key").read_session("s1")
    assert gateway.asked[0].headers["authorization"] == "Bearer admin-key"


def test_who_waits_is_patient_for_as_long(connect: Connect) -> None:
    gateway = Gateway(ok({"items": [], "next": None, "complete": True}))
    assert list(connect(gateway.transport, timeout=5).groups(run="r1", complete=True, wait=30)) == []
    (request,) = gateway.asked
    assert dict(request.url.params) == {"run_id": "r1", "complete": "true", "wait": "30"}
    assert request.extensions["timeout"] == {"connect": 5, "read": 35, "write": 5, "pool": 5}


@pytest.mark.parametrize("options", [{"url": "gateway:9090"}, {"timeout": 0}, {"retries": -1}])
def test_what_can_be_no_client_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"gateway:9090|are none"):
        Client(**options)


def test_pauses_grow_and_differ() -> None:
    first, second, third = pauses(3)
    assert 0.1 <= first <= 0.2
    assert 0.4 <= second <= 0.8
    assert 1.6 <= third <= 3.2
    assert list(pauses(3)) != [first, second, third]
