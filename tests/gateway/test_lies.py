"""A backend that lies (docs/promises.md D18): whatever it says, no agent breaks and no trace is silently exact."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from adapters.scripts.replies import of_length
from gateway.scripted import ScriptedServer, running
from tests.gateway.harness import events, gateway
from tests.gateway.telling import TELLING
from tests.gateway.twisted import Pair, lying, twistable

Answer = dict[str, Any]


def _ids(change: Callable[[list[Any]], None]) -> Callable[[Answer], None]:
    """A lie about the ids of the answer's choice, where it has any."""

    def lie(answer: Answer) -> None:
        for choice in answer.get("choices") or ():
            if choice.get("token_ids"):
                change(choice["token_ids"])

    return lie


def _logprobs(change: Callable[[list[Any]], None]) -> Callable[[Answer], None]:
    """A lie about the logprobs of the answer's choice, where it has any."""

    def lie(answer: Answer) -> None:
        for choice in answer.get("choices") or ():
            if choice.get("logprobs"):
                change(choice["logprobs"]["content"])

    return lie


def _first(value: object) -> Callable[[list[Any]], None]:
    def change(listed: list[Any]) -> None:
        listed[0] = value

    return change


def _all(value: object) -> Callable[[list[Any]], None]:
    def change(listed: list[Any]) -> None:
        listed[:] = [value] * len(listed)

    return change


def _first_logprob(value: object) -> Callable[[list[Any]], None]:
    def change(entries: list[Any]) -> None:
        entries[0]["logprob"] = value

    return change


def _twice(answer: Answer) -> None:
    answer["choices"] += answer["choices"]


def _index(index: object) -> Callable[[Answer], None]:
    def lie(answer: Answer) -> None:
        for choice in answer["choices"]:
            choice["index"] = index

    return lie


def _root(**members: object) -> Callable[[Answer], None]:
    """The member in the place of the true one, wherever that is told."""

    def lie(answer: Answer) -> None:
        answer.update({name: value for name, value in members.items() if answer.get(name) is not None})

    return lie


def _usage(**members: object) -> Callable[[Answer], None]:
    def lie(answer: Answer) -> None:
        if answer.get("usage"):
            answer["usage"].update(members)

    return lie


def _shorter_prompt(answer: Answer) -> None:
    if answer.get("prompt_token_ids"):
        answer["prompt_token_ids"].pop()


# The lie, the fidelity that is left, and words of the reason.
ABOUT_IDS = {
    "an id too few": (_ids(list.pop), "partial", "where the engine counted"),
    "an id too many": (_ids(lambda ids: ids.append(7)), "partial", "where the engine counted"),
    "a null for an id": (_ids(_first(None)), "none", "choice 0"),
    "a string for an id": (_ids(_first("17")), "none", "choice 0"),
    "a fraction for an id": (_ids(_first(1.5)), "none", "choice 0"),
    "a negative id": (_ids(_first(-1)), "none", "choice 0"),
    "an id beyond any vocabulary": (_ids(_first(2**31)), "none", "choice 0"),
    "the choice twice": (_twice, "partial", "stands twice"),
    "a choice that nobody asked for": (_index(1), "partial", "was not asked for"),
    "a choice below the first": (_index(-1), "none", "without a valid index"),
    "a choice with a name for its number": (_index("first"), "none", "without a valid index"),
    "the name of another model": (_root(model="somebody-else"), "partial", "somebody-else"),
    "a prompt that is shorter than counted": (_shorter_prompt, "partial", "prompt ids"),
    "no prompt ids": (_root(prompt_token_ids=None), "partial", "prompt ids"),
    "a prompt that is no list": (_root(prompt_token_ids="1,2,3"), "partial", "prompt"),
    "more tokens than told": (_usage(completion_tokens=999), "partial", "999"),
    "another prompt's count": (_usage(prompt_tokens=1), "partial", "counted 1"),
    "counts that are none": (_usage(completion_tokens="many"), "partial", "no count"),
    "counts below nothing": (_usage(completion_tokens=-5), "partial", "no count"),
    "no counts": (_root(usage=None), "partial", "no count"),
    "counts of another kind": (_root(usage=[1, 2]), "partial", "no count"),
}

ABOUT_LOGPROBS = {
    "a logprob too few": (_logprobs(list.pop), "logprobs for"),
    "a logprob too many": (_logprobs(lambda entries: entries.append(entries[0])), "logprobs for"),
    "a null for a logprob": (_logprobs(_first_logprob(None)), "null"),
    "a sentinel for a logprob": (_logprobs(_first_logprob(-9999.0)), "null"),
    "a logprob that is likelier than sure": (_logprobs(_first_logprob(0.5)), "above 0"),
    "a word for a logprob": (_logprobs(_first_logprob("low")), "choice 0"),
    "entries that are none": (_logprobs(_all(7)), "the engine gave none"),
}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    """One gateway for the whole table."""
    async with twistable(tmp_path_factory.mktemp("lies"), of_length(6)) as opened:
        yield opened


async def told(pair: Pair, lie: Callable[[Answer], None], *, stream: bool) -> dict[str, Any]:
    """The trace of a call that was answered with a lie. The agent gets an answer of its API, or an error of it."""
    calls = len(pair.server.calls)
    pair.server.script = lying(pair.honest, lie)
    response = await pair.gateway.chat(stream=stream)
    assert response.status_code in (200, 502)
    if response.status_code != 200:
        assert response.json()["error"]["message"]
    elif stream:
        last = events(response.content)[-1]
        assert last == b"[DONE]" or json.loads(last)["error"]["message"]
    else:
        assert "choices" in response.json()
    assert len(pair.server.calls) == calls + 1
    return await pair.gateway.trace(response)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("lie", ABOUT_IDS)
async def test_a_lie_about_the_tokens_is_never_exact(pair: Pair, lie: str, stream: bool) -> None:
    tell, fidelity, words = ABOUT_IDS[lie]
    trace = await told(pair, tell, stream=stream)
    assert trace["fidelity"] == fidelity
    assert words in trace["fidelity_reason"]
    for choice in trace["choices"]:
        assert choice["logprobs"] is None or len(choice["logprobs"]) == len(choice["token_ids"])


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("lie", ABOUT_LOGPROBS)
async def test_a_lie_about_the_logprobs_costs_them_and_not_the_ids(pair: Pair, lie: str, stream: bool) -> None:
    tell, words = ABOUT_LOGPROBS[lie]
    trace = await told(pair, tell, stream=stream)
    (speech,), (choice,) = pair.server.calls[-1].speeches, trace["choices"]
    assert (trace["fidelity"], choice["token_ids"]) == ("exact", list(speech.ids))
    assert trace["logprobs_fidelity"] == "none"
    assert words in trace["logprobs_reason"]
    assert choice["logprobs"] is None or len(choice["logprobs"]) == len(speech.ids)


_IDS_ANYWHERE = {"token_ids", "response_token_ids", "completion_token_ids", "output_ids"}


def _one_fewer(told: object) -> None:
    """Leaves the last id out of each list of them, wherever an engine has it."""
    for name, value in told.items() if isinstance(told, dict) else enumerate(told) if isinstance(told, list) else ():
        if name in _IDS_ANYWHERE and value:
            listed = value if isinstance(value[0], list) else [value]
            for ids in listed:
                ids.pop()
        else:
            _one_fewer(value)


@pytest.mark.parametrize("capture", ["exact", "stream"])
@pytest.mark.parametrize(("engine", "version", "variant"), TELLING)
async def test_an_id_too_few_is_missed_whatever_engine_tells_it(
    tmp_path: Path, engine: str, version: str, variant: str | None, capture: str
) -> None:
    server = ScriptedServer(engine, version=version, variant=variant, reply=of_length(6))
    server.script = lying(server.script, _one_fewer)
    async with running(server) as backend, gateway(tmp_path, backend, capture=capture) as served:
        for stream in (False, True):
            trace = await served.trace(await served.chat(stream=stream))
            # A stream that was insisted on may tell none at all.
            assert trace["fidelity"] in (("partial", "none") if capture == "stream" and stream else ("partial",))
            assert trace["fidelity_reason"]
