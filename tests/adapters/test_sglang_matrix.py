"""Plan, answer, verdict: each SGLang, scripted in its own shape, asked in each way, gives what it can and no more."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.answer import AnswerReader
from adapters.detect import Question, Reply
from adapters.engines import adapter_for, corrected, probes
from adapters.plan import Plan
from adapters.request import Endpoint
from adapters.schema import Capture, Completion, Verdict
from adapters.scripts.asked import read
from adapters.scripts.script import Answer, Stamp, said
from adapters.scripts.sglang import SglangScript
from adapters.scripts.speech import Called, Speech, cut, say
from adapters.server import Server
from tests.adapters.cases import planned, streamed

HELLO = say("Hello there. 👋")
OTHER = say("Hello, you. ❤")
THOUGHT = say("4.", reasoning="Two and two.")
CALLS = say(calls=[Called("weather", '{"city": "Paris"}'), Called("weather", '{"city": "Tokyo"}')])
CUT = cut(say("Never mind the end, it does not come."), max_tokens=5, stops=())
SPEECHES = {"text": (HELLO, OTHER), "reasoning": (THOUGHT,), "calls": (CALLS,), "cut": (CUT,)}

VERSIONS = ["0.5.9", "0.5.12", "0.5.13", "0.5.16", "0.5.17", "0.5.18", "0.5.19", "0.5.20", "0.5.23"]
CAPTURES: list[Capture] = ["exact", "ids", "stream"]


def body(endpoint: Endpoint, **fields: Any) -> dict[str, Any]:
    asked = {"prompt": "Once"} if endpoint == "completions" else {"messages": [{"role": "user", "content": "Hi"}]}
    return {"model": "m", **asked, **fields}


def answer(script: SglangScript, sent: bytes, endpoint: Endpoint, speeches: tuple[Speech, ...]) -> Answer:
    asked = read(endpoint, sent, {})
    return script.answer(asked, said(asked, speeches), Stamp("id", 0))


def outcome(
    script: SglangScript, plan: Plan, speeches: tuple[Speech, ...]
) -> tuple[Completion, Verdict, tuple[Speech, ...]]:
    """What is read of the script's answer to the plan, and what was said in truth."""
    answered = answer(script, plan.body, plan.request.endpoint, speeches)
    assert answered.status == 200, answered.body
    if plan.mode == "streamed":
        assert answered.content_type.startswith("text/event-stream")
        _, result = streamed(plan, answered.body)
    else:
        assert answered.content_type == "application/json"
        result = AnswerReader(plan).whole(answered.body)
    assert result.finished
    assert result.completion.anomalies == ()
    asked = read(plan.request.endpoint, plan.body, {})
    return result.completion, result.verdict, said(asked, speeches)


def check(completion: Completion, verdict: Verdict, truth: tuple[Speech, ...], *, exact: bool) -> None:
    assert verdict.fidelity == ("exact" if exact else "none"), verdict.fidelity_reason
    for choice, speech in zip(completion.choices, truth, strict=True):
        assert choice.text == speech.text("content")
        assert choice.finish_reason == speech.finish
        assert [(call.name, call.arguments) for call in choice.tool_calls or ()] == [
            (call.name, call.arguments) for call in speech.calls
        ]
        assert (choice.token_ids is not None) is exact
        if choice.token_ids is not None:
            assert tuple(choice.token_ids) == speech.ids
        if choice.logprobs is not None:
            assert choice.logprobs == speech.logprobs


@pytest.mark.parametrize("said_of", SPEECHES)
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("version", VERSIONS)
def test_upstream_chats(version: str, n: int, said_of: str) -> None:
    number = tuple(map(int, version.split(".")))
    script, server = SglangScript("m", version), adapter_for("sglang").server(version)
    for capture in CAPTURES:
        for stream in (False, True):
            plan, _ = planned(body("chat", n=n, stream=stream), server, capture=capture)
            completion, verdict, truth = outcome(script, plan, SPEECHES[said_of])
            streams = stream and (capture == "stream" or (capture == "ids" and number >= (0, 5, 20)))
            able = number >= ((0, 5, 20) if streams else (0, 5, 13))
            check(completion, verdict, truth, exact=able)
            assert (plan.mode == "streamed") == (streams or (stream and number < (0, 5, 13)))
            if able and not streams:
                assert verdict.logprobs_fidelity == "exact"
                assert completion.logprobs_mode == "processed"
            else:
                # A stream that no end token ended and no parser touched has lost none.
                assert (verdict.logprobs_reason is None) == (able and said_of == "cut")


@pytest.mark.parametrize("said_of", SPEECHES)
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize(("variant", "version"), [("agentcore", "0.5.9"), ("llm360", "0.5.11")])
def test_chats_of_the_patch_and_the_fork(variant: str, version: str, n: int, said_of: str) -> None:
    script, server = SglangScript("m", version, variant), adapter_for("sglang").server(version, variant)
    for capture in CAPTURES:
        for stream in (False, True):
            plan, _ = planned(body("chat", n=n, stream=stream), server, capture=capture)
            completion, verdict, truth = outcome(script, plan, SPEECHES[said_of])
            check(completion, verdict, truth, exact=variant == "agentcore" or plan.mode != "streamed")
            if plan.mode != "streamed":
                assert verdict.logprobs_fidelity == "exact"
            assert (plan.mode == "buffered") == (stream and (capture, variant) not in STREAMED)


STREAMED = {("ids", "agentcore"), ("stream", "agentcore"), ("stream", "llm360")}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("prompt", ["Once", [1, 2, 3], ["Once", "Twice"], [[1, 2], [3]]])
def test_completions(version: str, stream: bool, prompt: Any) -> None:
    script, server = SglangScript("m", version), adapter_for("sglang").server(version)
    able = tuple(map(int, version.split("."))) >= (0, 5, 17)
    plan, _ = planned(body("completions", prompt=prompt, stream=stream, n=2), server, endpoint="completions")
    completion, verdict, truth = outcome(script, plan, (HELLO, OTHER, CUT))
    check(completion, verdict, truth, exact=able)
    assert verdict.logprobs_fidelity == ("exact" if able else "none")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("variant", [None, "agentcore", "llm360"])
def test_a_server_of_which_nothing_is_known_tells_all_that_it_can_in_whole_answers(
    version: str, variant: str | None
) -> None:
    script = SglangScript("m", version, variant)
    plan, _ = planned(body("chat", stream=True), adapter_for("sglang").server())
    completion, verdict, truth = outcome(script, plan, (HELLO,))
    number = tuple(map(int, version.split(".")))
    check(completion, verdict, truth, exact=variant is not None or number >= (0, 5, 13))


@pytest.mark.parametrize(
    ("version", "variant"),
    [(version, None) for version in VERSIONS] + [("0.5.9", "agentcore"), ("0.5.12", "agentcore"), ("0.5.11", "llm360")],
)
def test_probes_find_out_what_the_table_says(version: str, variant: str | None) -> None:
    script = SglangScript("m", version, variant)

    def reply(question: Question) -> Reply:
        answered = answer(script, question.body or b"", "chat", (HELLO,))
        return Reply(answered.status, body=answered.body)

    unknown = Server("sglang", models=("m",))
    found = corrected(unknown, {question.key: reply(question) for question in probes(unknown)})
    assert found.known == "probed"
    assert (found.variant, found.features) == (variant, adapter_for("sglang").server(version, variant).features)
