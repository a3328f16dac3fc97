"""What a session pins stands in each of its calls, and the trace has what the agent asked for beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Raw

from adapters.request import CanonicalRequest, Endpoint
from gateway.api.limits import PinnedSampling
from gateway.habits.sampling import SAMPLING_FIELDS, pinned, sampling_of
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import CHAT, HELLO, gateway

MESSAGES = "/v1/messages"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"


def request(endpoint: Endpoint = "chat", **fields: Any) -> CanonicalRequest:
    return CanonicalRequest(endpoint, {name: Raw(json.dumps(value).encode()) for name, value in fields.items()}, "m")


def sent(request: CanonicalRequest) -> dict[str, Any]:
    return {name: json.loads(bytes(raw)) for name, raw in request.fields.items()}


def test_whatever_a_trace_tells_of_sampling_can_be_pinned() -> None:
    assert tuple(PinnedSampling.model_fields) == SAMPLING_FIELDS


def test_without_pins_a_request_is_the_one_that_came() -> None:
    asked = request(temperature=0.2)
    assert pinned(asked, None) is asked
    assert pinned(asked, {}) is asked


def test_pins_stand_in_the_place_of_what_was_asked_and_a_null_leaves_out() -> None:
    asked = request(temperature=0.2, top_k=5, messages=[])
    told = pinned(asked, {"temperature": 1.0, "top_k": None, "seed": 7, "stop": ["\n"]})
    assert sent(told) == {"temperature": 1.0, "messages": [], "seed": 7, "stop": ["\n"]}
    assert sent(asked)["temperature"] == 0.2


@pytest.mark.parametrize(
    ("endpoint", "asked", "pin", "gets"),
    [
        ("chat", {"max_tokens": 9}, {"max_completion_tokens": 4}, {"max_tokens": 4}),
        ("chat", {"max_completion_tokens": 9}, {"max_tokens": 4}, {"max_completion_tokens": 4}),
        ("chat", {"max_completion_tokens": 9, "max_tokens": 9}, {"max_tokens": 4}, {"max_completion_tokens": 4}),
        ("chat", {}, {"max_completion_tokens": 4}, {"max_completion_tokens": 4}),
        ("chat", {"max_completion_tokens": 9}, {"max_tokens": None}, {}),
        ("completions", {}, {"max_completion_tokens": 4}, {"max_tokens": 4}),
    ],
)
def test_a_limit_is_one_parameter_whichever_name_it_has(
    endpoint: Endpoint, asked: dict[str, int], pin: dict[str, int | None], gets: dict[str, int]
) -> None:
    assert sent(pinned(request(endpoint, **asked), pin)) == gets


def test_how_many_answers_there_are_to_be_is_known_to_whoever_reads_them() -> None:
    assert pinned(request(n=4), {"n": None}).expected_choices == 1
    assert pinned(request(), {"n": 3}).expected_choices == 3


def test_what_the_plan_left_out_was_not_sent() -> None:
    asked = request(temperature=0.2, max_tokens=99)
    told = sampling_of(asked, pinned(asked, {"temperature": 1.0}), frozenset({"max_tokens"}))
    assert told.requested == {"temperature": 0.2, "max_tokens": 99}
    assert told.effective == {"temperature": 1.0}


ASKED: dict[str, dict[str, Any]] = {
    CHAT: {**HELLO, "temperature": 0.1},
    MESSAGES: {**HELLO, "temperature": 0.1},
    RESPONSES: {"model": "scripted", "input": "Say hello.", "max_output_tokens": 32, "temperature": 0.1},
    COMPLETIONS: {"model": "scripted", "prompt": "Say hello.", "max_tokens": 32, "temperature": 0.1},
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", ASKED)
async def test_a_session_pins_its_sampling_in_every_dialect(tmp_path: Path, path: str, stream: bool) -> None:
    server = ScriptedServer("vllm")
    body = {**ASKED[path], "stream": stream}
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        pins = {"temperature": 1.0, "top_p": 1, "seed": 7, "max_tokens": 16}
        await served.agent.post("/api/sessions", json={"session_id": "s1", "sampling": pins})
        response = await served.agent.post(f"/sessions/s1{path}", json=body)
        assert response.status_code == 200, response.text
        trace = await served.trace(response)
    got = server.calls[-1].json
    assert {name: got[name] for name in pins} == pins
    assert trace["sampling"]["requested"] == {"temperature": 0.1, "max_tokens": 32}
    assert trace["sampling"]["effective"] == pins
    assert (trace["status"], trace["fidelity"]) == ("ok", "exact")


async def test_pins_can_be_changed_and_taken_off(tmp_path: Path) -> None:
    server = ScriptedServer("vllm")
    async with running(server) as backend, gateway(tmp_path, backend) as served:
        created = await served.agent.post("/api/sessions", json={"session_id": "s1", "sampling": {"temperature": None}})
        assert created.json()["sampling"] == {"temperature": None}
        for pins, gets in (({"temperature": 0.5}, 0.5), (None, 0.1)):
            await served.agent.patch("/api/sessions/s1", json={"sampling": pins})
            await served.chat(session="s1", temperature=0.1)
            assert server.calls[-1].json["temperature"] == gets


@pytest.mark.parametrize(
    ("sampling", "says"),
    [
        ({"temprature": 1.0}, "did you mean temperature?"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"n": 0}, "n"),
        ({"max_tokens": 1, "max_completion_tokens": 1}, "one limit under two names"),
    ],
)
async def test_what_is_no_sampling_parameter_is_refused_at_the_making(
    tmp_path: Path, sampling: dict[str, Any], says: str
) -> None:
    async with gateway(tmp_path) as served:
        answer = await served.agent.post("/api/sessions", json={"sampling": sampling})
    assert answer.status_code == 400
    assert says in answer.json()["detail"]
