"""`python -m tests.engines.anthropic_sdk`: Anthropic's SDK on a real engine through the gateway, whole and streamed.

1 as exit code if an answer is not what the model was taught, a trace is not exact, or a count is not the engine's.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anthropic
from anthropic import Anthropic
from anthropic.types import Message

from tests.engines.cases import WEATHER
from tests.engines.gateway_process import Api, serving
from tests.engines.laboratory import prepare, running
from tests.engines.setups import SETUPS, Setup

_TOOL: Final[Any] = {
    "name": WEATHER["function"]["name"],
    "description": WEATHER["function"]["description"],
    "input_schema": WEATHER["function"]["parameters"],
}
_SILENT: Final = frozenset({"dynamo"})
"""Engines that do not say which string stopped an answer."""
_ENDLESS: Final = frozenset({"dynamo"})
"""Its worker here is scripted, and takes prompts of any length."""
_CITY: Final = "get_weather({'city': '%s'})"


@dataclass(frozen=True, slots=True)
class Case:
    title: str
    asks: str
    says: tuple[str, ...]
    """Texts and calls of the answer; empty where they are not looked at."""
    stops: str
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def request(self) -> dict[str, Any]:
        asked = {"model": "tiny", "max_tokens": 100, "messages": [{"role": "user", "content": self.asks}]}
        return asked | {"extra_body": {"temperature": 0}} | dict(self.more)


_TOOLS: Final = (("tools", [_TOOL]),)
CASES: Final = (
    Case("text", "Say hello.", ("Hello! I am a tiny scripted model.",), "end_turn"),
    Case("tool", "What is the weather in Paris?", (_CITY % "Paris",), "tool_use", _TOOLS),
    Case(
        "two tools",
        "What is the weather in Paris and Tokyo?",
        (_CITY % "Paris", _CITY % "Tokyo"),
        "tool_use",
        _TOOLS,
    ),
    Case("length", "Count to thirty.", (), "max_tokens", (("max_tokens", 5),)),
    Case("stop sequence", "Count to thirty.", (), "stop_sequence", (("stop_sequences", ["7"]),)),
    Case("multi-byte text", "Say something with emoji.", ("Voilà 🙂 naïve 你好世界 👩‍🔬 done.",), "end_turn"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engines.anthropic_sdk", description=__doc__)
    known = {setup.name: setup for setup in SETUPS if setup.calls_tools}
    parser.add_argument("--only", choices=sorted(known), default="vllm", help="the engine; vllm unless given")
    setup = known[parser.parse_args(arguments).only]
    print(f"{setup.title.format(version=prepare(setup))}, anthropic {anthropic.__version__}\n")
    wrong = _wrong(setup)
    for finding in wrong:
        print(f"WRONG: {finding}")
    return int(bool(wrong))


def _wrong(setup: Setup) -> list[str]:
    with (
        tempfile.TemporaryDirectory() as folder,
        running(setup) as engine,
        serving(engine, Path(folder)) as api,
    ):
        session = api.create_session("anthropic", "exact")
        base_url = session.base_url.removesuffix("/v1")
        with Anthropic(base_url=base_url, api_key=session.key, max_retries=0) as client:
            found = [*_answers(client, setup), *_loop(client)]
            if setup.engine not in _ENDLESS:
                found += _overflow(client)
        return [*found, *_traces(api, session.session_id, refused=int(setup.engine not in _ENDLESS))]


def _answers(client: Anthropic, setup: Setup) -> Iterator[str]:
    for case in CASES:
        whole = client.messages.create(**case.request)
        with client.messages.stream(**case.request) as stream:
            streamed = stream.get_final_message()
        print(f"{case.title}: {whole.stop_reason}, {_said(whole)}", flush=True)
        for how, answer in (("whole", whole), ("streamed", streamed)):
            said = _said(answer)
            if answer.stop_reason == "end_turn" and case.stops == "stop_sequence" and setup.engine in _SILENT:
                continue
            if (answer.stop_reason, said if case.says else ()) != (case.stops, case.says):
                yield f"{case.title}, {how}: {answer.stop_reason} and {said}"
        counted = {name: case.request[name] for name in ("model", "messages", "tools") if name in case.request}
        count = client.messages.with_raw_response.count_tokens(**counted)
        tokens = count.parse().input_tokens
        told = [_prompt(answer) for answer in (whole, streamed)]
        if count.headers["x-counted-by"] == "backend" and told != [tokens] * 2:
            yield f"{case.title}: {tokens} tokens were counted, and {told} told"


def _loop(client: Anthropic) -> Iterator[str]:
    """An agent that sends back what it got, thoughts included, until its model calls no more tools."""
    messages: list[Any] = [{"role": "user", "content": "Think, then check the weather in Paris."}]
    for _ in range(4):
        answer = client.messages.create(
            model="tiny", max_tokens=100, messages=messages, tools=[_TOOL], extra_body={"temperature": 0}
        )
        messages.append(answer.to_param())
        called = [block.id for block in answer.content if block.type == "tool_use"]
        if not called:
            print(f"after a tool's result: {_said(answer)}", flush=True)
            return
        results = [{"type": "tool_result", "tool_use_id": each, "content": '{"temp_c": 21}'} for each in called]
        messages.append({"role": "user", "content": results})
    yield "the model never ended its turn"


def _overflow(client: Anthropic) -> Iterator[str]:
    asked = [{"role": "user", "content": "word " * 20_000}]
    try:
        client.messages.create(model="tiny", max_tokens=10, messages=asked)  # type: ignore[arg-type]
    except anthropic.BadRequestError as refused:
        print(f"overflow: {refused.api_message}", flush=True)
        if not (refused.api_message or "").startswith("prompt is too long: "):
            yield f"a prompt that is too long is told as {refused.api_message!r}"
    else:
        yield "a prompt that is too long was answered"


def _said(answer: Message) -> tuple[str, ...]:
    """Calls and texts, also one that came as a thought: vLLM takes an answer without a thought for one."""
    said: list[str] = []
    for block in answer.content:
        if block.type == "tool_use":
            said.append(f"{block.name}({block.input})")
        else:
            said.append(getattr(block, "text", None) or getattr(block, "thinking", ""))
    return tuple(each.strip() for each in said if each.strip())


def _prompt(answer: Message) -> int:
    return answer.usage.input_tokens + (answer.usage.cache_read_input_tokens or 0)


def _traces(api: Api, session_id: str, *, refused: int) -> Iterator[str]:
    traces = api.traces_of(session_id)
    unsure = [(trace["status"], trace["fidelity"], trace["fidelity_reason"]) for trace in traces]
    unsure = [each for each in unsure if each[:2] != ("ok", "exact")]
    print(f"{len(traces)} traces, {len(traces) - len(unsure)} of them exact", flush=True)
    if len(unsure) != refused:
        yield f"not exact: {unsure}"


if __name__ == "__main__":
    sys.exit(main())
