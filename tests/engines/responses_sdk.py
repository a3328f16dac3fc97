"""`python -m tests.engines.responses_sdk`: OpenAI's SDK on a real engine by Responses, whole and streamed.

1 as exit code if an answer is not what the model was taught or not of the SDK's types, a trace is not exact, or a loop
is not one sequence of tokens where the template makes it one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import openai
from openai import OpenAI
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from tests.engines.cases import WEATHER
from tests.engines.gateway_process import Api, serving
from tests.engines.laboratory import MODEL, prepare, running
from tests.engines.setups import SETUPS, Setup

_TOOL: Final[Any] = {"type": "function", "strict": None, **WEATHER["function"]}
_ENDLESS: Final = frozenset({"dynamo"})
"""Its worker here is scripted, and takes prompts of any length."""
_EVENT: Final[TypeAdapter[Any]] = TypeAdapter(ResponseStreamEvent)
_WEATHER: Final = '{"temp_c": 21}'
_MOST_CALLS: Final = 4

Ask = Callable[..., Response]


@dataclass(frozen=True, slots=True)
class Case:
    title: str
    asks: str
    says: tuple[str, ...] = ()
    """Its items as `_said` tells them; empty where they are not looked at."""
    status: str = "completed"
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def request(self) -> dict[str, Any]:
        asked = {"model": "tiny", "max_output_tokens": 100, "input": self.asks, "temperature": 0}
        return asked | dict(self.more)


@dataclass(frozen=True, slots=True)
class Loop:
    """A session of one task, each call going on with the one before it."""

    title: str
    asks: str
    leaves: frozenset[str] = frozenset()
    """Engines whose parser leaves the line end between a text and a call in the text: the template writes one more."""


@dataclass(frozen=True, slots=True)
class Way:
    """How an agent goes on after an answer."""

    title: str
    ask: Ask
    after: Callable[[list[Any], Response], dict[str, Any]]
    trims: bool = False


_PARIS: Final = 'get_weather({"city": "Paris"})'
_TOKYO: Final = 'get_weather({"city": "Tokyo"})'
_TOOLS: Final = (("tools", [_TOOL]),)
CASES: Final = (
    Case("text", "Say hello.", ("Hello! I am a tiny scripted model.",)),
    Case("tool", "What is the weather in Paris?", (_PARIS,), more=_TOOLS),
    Case("two tools", "What is the weather in Paris and Tokyo?", (_PARIS, _TOKYO), more=_TOOLS),
    Case("length", "Count to thirty.", status="incomplete", more=(("max_output_tokens", 5),)),
    Case("stop string", "Count to thirty.", ("1 2 3 4 5 6",), more=(("extra_body", {"stop": ["7"]}),)),
    Case("multi-byte text", "Say something with emoji.", ("Voilà 🙂 naïve 你好世界 👩‍🔬 done.",)),
)
_THOUGHT: Final = ("thought: Two plus two makes four.", "The answer is 4.")
_UNREAD_THOUGHT: Final = ("<think>\nTwo plus two makes four.\n</think>\n\nThe answer is 4.",)
LOOPS: Final = (
    Loop("a tool", "What is the weather in Paris?"),
    Loop("two tools at once", "What is the weather in Paris and Tokyo?"),
    Loop(
        "a thought, then a tool",
        "Think, then check the weather in Paris.",
        frozenset({"dynamo", "vllm"}),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engines.responses_sdk", description=__doc__)
    known = {setup.name: setup for setup in SETUPS if setup.calls_tools}
    parser.add_argument(
        "--only", choices=sorted(known), default="vllm-reasoning", help="the engine; vllm-reasoning unless given"
    )
    setup = known[parser.parse_args(arguments).only]
    print(f"{setup.title.format(version=prepare(setup))}, openai {openai.__version__}\n")
    wrong = _wrong(setup)
    for finding in wrong:
        print(f"WRONG: {finding}")
    return int(bool(wrong))


def _wrong(setup: Setup) -> list[str]:
    with (
        tempfile.TemporaryDirectory() as folder,
        running(setup) as engine,
        serving(f"{engine},tokenizer={MODEL}", Path(folder)) as api,
    ):
        found = _single_calls(api, setup)
        for loop in LOOPS:
            for way in WAYS:
                told = () if way.trims or setup.engine not in loop.leaves else ("whitespace",)
                found += (f"{loop.title}, {way.title}: {each}" for each in _loop(api, loop, way, told))
        return found


def _single_calls(api: Api, setup: Setup) -> list[str]:
    session = api.create_session("responses", "exact")
    reads_thoughts = "--reasoning-parser" in setup.arguments
    thought = Case("reasoning", "What is 2+2? Think first.", _THOUGHT if reads_thoughts else _UNREAD_THOUGHT)
    with OpenAI(base_url=session.base_url, api_key=session.key, max_retries=0) as client:
        found = [finding for case in (*CASES, thought) for finding in _answers(client, case)]
        if setup.engine not in _ENDLESS:
            found += _overflow(client)
    return [*found, *_traces(api, session.session_id, refused=2 * int(setup.engine not in _ENDLESS))]


def _answers(client: OpenAI, case: Case) -> Iterator[str]:
    whole, streamed = _create(client, **case.request), _stream(client, **case.request)
    print(f"{case.title}: {whole.status}, {_said(whole)}", flush=True)
    for how, answer in (("whole", whole), ("streamed", streamed)):
        said = _said(answer)
        # vLLM's parser takes an answer without a thought for one.
        meant = {case.says, tuple(f"thought: {each}" for each in case.says)} if case.says else {said}
        if answer.status != case.status or said not in meant:
            yield f"{case.title}, {how}: {answer.status} and {said}"
        if (answer.incomplete_details is not None) != (case.status == "incomplete"):
            yield f"{case.title}, {how}: incomplete_details is {answer.incomplete_details}"
    if _counted(whole) != _counted(streamed) or not all(_counted(whole)):
        yield f"{case.title}: {_counted(whole)} tokens whole, and {_counted(streamed)} streamed"


def _loop(api: Api, loop: Loop, way: Way, breaks: Sequence[str]) -> Iterator[str]:
    session = api.create_session("responses", "exact")
    calls = sampled = 0
    with OpenAI(base_url=session.base_url, api_key=session.key, max_retries=0) as client:
        history: list[Any] = [{"role": "user", "content": loop.asks}]
        asked: dict[str, Any] = {"input": history}
        while calls < _MOST_CALLS:
            answer = way.ask(client, model="tiny", max_output_tokens=100, temperature=0, tools=[_TOOL], **asked)
            calls, sampled = calls + 1, sampled + _counted(answer)[1]
            if not any(item.type == "function_call" for item in answer.output):
                break
            asked = way.after(history, answer)
        else:
            yield "the model never ended its turn"
    samples = api.samples(session.session_id)
    causes = [call["broken"]["cause"] for call in api.drift(session.session_id)["calls"] if call["broken"]]
    told = f"{calls} calls, {len(samples)} sequences {causes}, {_said(answer)}"
    print(f"{loop.title}, {way.title}: {told}", flush=True)
    if calls < 2:
        yield f"no tool was called: {_said(answer)}"
    if {*causes} != {*breaks} or len(samples) != len(causes) + 1:
        yield f"{len(samples)} sequences, for {causes} and not {list(breaks)}"
    if (kept := sum(sum(sample["mask"]) for sample in samples)) != sampled:
        yield f"{sampled} tokens were sampled, and its samples have {kept}"
    yield from _traces(api, session.session_id, refused=0)


def _by_items(history: list[Any], answer: Response) -> dict[str, Any]:
    """All of it again, the SDK's own objects included."""
    history += [*answer.output, *_results(answer)]
    return {"input": history}


def _by_id(history: list[Any], answer: Response) -> dict[str, Any]:
    return {"input": _results(answer), "previous_response_id": answer.id}


def _trimmed(history: list[Any], answer: Response) -> dict[str, Any]:
    """The same, without the white space around its texts."""
    items = [item.to_dict(warnings=False) for item in answer.output]
    for part in (part for item in items if item["type"] == "message" for part in item["content"]):  # type: ignore[attr-defined]
        part["text"] = part["text"].strip()
    history += [*items, *_results(answer)]
    return {"input": history}


def _results(answer: Response) -> list[Any]:
    called = [item.call_id for item in answer.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": each, "output": _WEATHER} for each in called]


def _overflow(client: OpenAI) -> Iterator[str]:
    asked = {"model": "tiny", "max_output_tokens": 10, "input": "word " * 20_000}
    asks: tuple[tuple[str, Ask], ...] = (("whole", _create), ("streamed", _stream))
    for how, ask in asks:
        try:
            ask(client, **asked)
        except openai.BadRequestError as refused:
            print(f"overflow, {how}: {refused.code}, {refused.message}", flush=True)
            if refused.code != "context_length_exceeded":
                yield f"a prompt that is too long, {how}, is told as {refused.code!r}"
        else:
            yield f"a prompt that is too long, {how}, was answered"


def _create(client: OpenAI, **asked: Any) -> Response:
    """Held to the SDK's own types, which it does not check itself."""
    raw = client.responses.with_raw_response.create(**asked)
    Response.model_validate_json(raw.http_response.content)
    answer: Response = raw.parse()
    return answer


def _stream(client: OpenAI, **asked: Any) -> Response:
    with client.responses.stream(**asked) as stream:
        events = list(stream)
    for event in events:
        _EVENT.validate_python(event.to_dict(warnings=False))
    last = events[-1]
    assert last.type in ("response.completed", "response.incomplete"), f"a stream ended with {last}"
    return last.response


WAYS: Final = (
    Way("by items", _create, _by_items),
    Way("by items, texts trimmed", _stream, _trimmed, trims=True),
    Way("by previous_response_id", _stream, _by_id),
)


def _said(answer: Response) -> tuple[str, ...]:
    """Calls, texts and thoughts."""
    said: list[str] = []
    for item in answer.output:
        if item.type == "function_call":
            said.append(f"{item.name}({item.arguments})")
        elif item.type == "reasoning":
            said.append(f"thought: {''.join(part.text for part in item.content or ()).strip()}")
        elif item.type == "message":
            said.append("".join(getattr(part, "text", "") for part in item.content).strip())
    return tuple(each for each in said if each)


def _counted(answer: Response) -> tuple[int, int]:
    return (answer.usage.input_tokens, answer.usage.output_tokens) if answer.usage is not None else (0, 0)


def _traces(api: Api, session_id: str, *, refused: int) -> Iterator[str]:
    traces = api.traces_of(session_id)
    unsure = [(trace["status"], trace["fidelity"], trace["fidelity_reason"]) for trace in traces]
    unsure = [each for each in unsure if each[:2] != ("ok", "exact")]
    print(f"  {len(traces)} traces, {len(traces) - len(unsure)} of them exact", flush=True)
    if len(unsure) != refused:
        yield f"not exact: {unsure}"


if __name__ == "__main__":
    sys.exit(main())
