"""`/api/drift` and a session's own, over a real store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from adapters.schema import RecordedRequest, Session, Trace
from adapters.scripts.speech import say
from tests.gateway.api.harness import STARTED, Api, api
from tests.storage.samples.drift.conversations import chat, sent_back, user

ASKED = user("What is the weather in Paris?")
THOUGHT = say("It is sunny.", reasoning="I look out of the window.")
WHOLE = [ASKED, sent_back(THOUGHT), user("And now?")]
STRIPPED = [ASKED, sent_back(THOUGHT, reasoning_content=None), user("And now?")]


async def record(api: Api, session_id: str, *traces: Trace, number: int = 0, **session: Any) -> None:
    made = Session(session_id, STARTED + timedelta(seconds=number), **session)
    for trace in traces:
        await api.record(
            replace(trace, session_id=session_id, trace_id=f"{session_id}-{trace.turn}", turn=None, backend="gpu-1"),
            made,
        )


def calls(history: Sequence[dict[str, Any]], *, user_agent: str = "claude-cli/2.1 (external)") -> tuple[Trace, Trace]:
    headers = {"user-agent": user_agent}
    first, later = chat(0, [ASKED], THOUGHT), chat(1, history)
    return (
        replace(first, request=RecordedRequest(first.request.body, headers)),
        replace(later, request=RecordedRequest(later.request.body, headers)),
    )


async def test_a_session_says_of_each_call_whether_it_extends_and_where_it_breaks(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await record(served, "s1", *calls(STRIPPED), run_id="run-1")
        answer = await served.client.get("/api/sessions/s1/drift")
    told = answer.json()
    assert (answer.status_code, told["session_id"], told["run_id"]) == (200, "s1", "run-1")
    assert told["counts"] == {
        "calls": 2,
        "starts": 1,
        "extends": 0,
        "breaks": 1,
        "unjudged": 0,
        "exact_share": 0.0,
        "causes": {"stripped_reasoning": 1},
    }
    first, later = told["calls"]
    assert (first["continuity"], first["agent"], first["broken"]) == ("starts", "claude-cli", None)
    broken = later["broken"]
    assert (broken["earlier_trace_id"], broken["earlier_index"], broken["cause"]) == ("s1-0", 0, "stripped_reasoning")
    prompt = (calls(STRIPPED)[0].prompt_token_ids or ())[:]
    assert broken["position"] == len(prompt)
    assert broken["earlier"]["token_ids"][broken["position"] - broken["window_start"] :] == list(THOUGHT.ids)
    assert broken["earlier"]["text"] == "I look out of the window.\nIt is sunny."
    assert (broken["later"]["text"], broken["text_source"]) == ("It is sunny.", "record")


async def test_a_backend_whose_tokenizer_is_known_has_the_text_of_the_ids(tmp_path: Path) -> None:
    async with api(tmp_path, backends=("http://gpu-1:8000,name=gpu-1,tokenizer=/models/tiny",)) as served:
        await record(served, "s1", *calls(STRIPPED))
        served.tokenizers.folders.add("/models/tiny")
        [broken] = [call["broken"] for call in (await _session(served))["calls"] if call["broken"]]
        assert broken["text_source"] == "tokenizer"
        assert broken["later"]["text"] == " ".join(map(str, broken["later"]["token_ids"]))
        served.tokenizers.folders.clear()
        [broken] = [call["broken"] for call in (await _session(served))["calls"] if call["broken"]]
        assert broken["text_source"] == "record"


async def _session(served: Api) -> Any:
    return (await served.client.get("/api/sessions/s1/drift")).json()


async def test_drift_is_summed_by_run_and_agent_with_an_example_of_each_cause(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        await record(served, "s1", *calls(STRIPPED), number=1, run_id="run-1")
        await record(served, "s2", *calls(STRIPPED), *_more(WHOLE), number=2, run_id="run-1")
        await record(served, "s3", *calls(WHOLE), number=3, run_id="run-1", metadata={"agent": "careful"})
        await record(served, "s4", *calls(WHOLE), number=4)
        told = (await served.client.get("/api/drift")).json()
        named = (await served.client.get("/api/drift", params={"run_id": "run-1", "agent": "careful"})).json()
    assert (told["sessions"], told["next"], told["complete"]) == (4, None, True)
    rows = [(item["run_id"], item["agent"], item["sessions"], item["counts"]["exact_share"]) for item in told["items"]]
    assert rows == [(None, "claude-cli", 1, 1.0), ("run-1", "claude-cli", 2, 1 / 3), ("run-1", "careful", 1, 1.0)]
    busy = told["items"][1]
    assert busy["counts"]["causes"] == {"stripped_reasoning": 2}
    example = busy["examples"]["stripped_reasoning"]
    assert (example["session_id"], example["broken"]["trace_id"]) == ("s1", "s1-1")
    assert [item["agent"] for item in named["items"]] == ["careful"]


def _more(history: Sequence[dict[str, Any]]) -> tuple[Trace]:
    headers = {"user-agent": "claude-cli/2.1 (external)"}
    later = chat(2, history)
    return (replace(later, request=RecordedRequest(later.request.body, headers)),)


async def test_sums_go_on_by_the_cursor(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for number in range(3):
            await record(served, f"s{number}", *calls(STRIPPED), number=number, run_id="run-1")
        first = (await served.client.get("/api/drift", params={"limit": 2})).json()
        rest = (await served.client.get("/api/drift", params={"limit": 2, "cursor": first["next"]})).json()
    assert [first["sessions"], rest["sessions"], rest["next"]] == [2, 1, None]
    assert [page["items"][0]["counts"]["breaks"] for page in (first, rest)] == [2, 1]


async def test_sessions_of_several_steps_are_one_page(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        for number in range(19):
            await record(served, f"s{number:02}", chat(0, [ASKED], THOUGHT), number=number)
        told = (await served.client.get("/api/drift", params={"limit": 18})).json()
        rest = (await served.client.get("/api/drift", params={"cursor": told["next"]})).json()
    assert (told["sessions"], told["items"][0]["counts"]["calls"]) == (18, 18)
    assert (rest["sessions"], rest["next"]) == (1, None)


async def test_a_session_that_is_not_there_is_a_404_and_a_filter_that_is_none_a_400(tmp_path: Path) -> None:
    async with api(tmp_path) as served:
        assert (await served.client.get("/api/sessions/nobody/drift")).status_code == 404
        wrong = await served.client.get("/api/drift", params={"agnt": "x"})
    assert wrong.status_code in (400, 422)
    assert "agent" in wrong.text
