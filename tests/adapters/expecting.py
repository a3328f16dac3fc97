"""What an example is expected to read as, held against a reading of it: whole, byte by byte and cut."""

from __future__ import annotations

from adapters.answer import AnswerReader, Outcome
from adapters.plan import Plan
from adapters.server import Server
from tests.adapters.cases import Example, cut_points, planned, streamed
from tests.adapters.cutting import assert_reads_the_same_however_it_is_cut, broken_off
from tests.adapters.test_wire_examples import reading


def plan_of(example: Example, server: Server) -> Plan:
    """The plan of the request that the example answers; of a native endpoint's as if it were a completion."""
    endpoint = "chat" if "chat" in example.endpoint else "completions"
    flags = {**example.flags, "stream": example.streamed}
    if "input_ids" in flags:
        flags["prompt"] = flags["input_ids"]
    return planned(flags, server, endpoint=endpoint, capture="stream")[0]


def read(example: Example, plan: Plan) -> Outcome:
    return streamed(plan, example.body)[1] if example.streamed else AnswerReader(plan).whole(example.body)


def assert_reads_as_expected(
    example: Example, plan: Plan, *, fidelity: str | None = None, ignored: frozenset[str] = frozenset()
) -> None:
    """`fidelity` where a verdict is another than index.json's; `ignored` are keys of a choice that it has otherwise."""
    outcome, expected = read(example, plan), example.expected
    prompt = outcome.completion.prompt_token_ids
    assert (None if prompt is None else prompt.tolist()) == (
        expected["prompt_token_ids"] or expected.get("prompt_from_request")
    )
    for choice, wanted in zip(outcome.completion.choices, expected["choices"], strict=True):
        told = reading(choice)
        assert {key: told[key] for key in wanted if key not in ignored} == {
            key: value for key, value in wanted.items() if key not in ignored
        }
    if expected["status"] == "backend_error":
        error = outcome.completion.error
        assert error is not None
        assert {"message": error.message, "type": error.type, "code": error.code} == expected["error"]
    else:
        assert outcome.finished
        assert outcome.completion.anomalies == ()
        assert outcome.verdict.fidelity == (fidelity or expected["fidelity"]), outcome.verdict.fidelity_reason
    if "usage" in expected:
        usage = outcome.completion.usage
        assert usage is not None
        told_usage = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
        assert told_usage == {key: expected["usage"][key] for key in told_usage}
    if example.streamed:
        points = cut_points(example.body)
        assert_reads_the_same_however_it_is_cut(plan, example.body, points)
        for broken, whole in broken_off(plan, example.body, points):
            assert broken.verdict.fidelity != "exact" or broken.completion.choices == whole.completion.choices
