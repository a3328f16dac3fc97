"""`python -m tests.engines.drift`: a reasoning agent with a tool on a real engine, with a template that strips its
thoughts from the history and with one that keeps them; 1 as exit code if the report is not what that makes of it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.engines.agent import Agent
from tests.engines.cases import WEATHER
from tests.engines.gateway_process import Api, serving
from tests.engines.laboratory import MODEL, prepare, running
from tests.engines.setups import SETUPS, Setup

Message = dict[str, Any]

_ASKED: Final = (
    "Think, then check the weather in Paris.",
    "What is 2+2? Think first.",
    "What is the weather in Paris and Tokyo?",
    "Say hello.",
)
_MOST_CALLS: Final = 10
_REASONING: Final = ("reasoning_content", "reasoning")

# The stock Qwen3 template writes a thought only after the last question of the user.
_STRIPS: Final = "loop.index0 > ns.last_query_index"
_KEEPS: Final = "true"


@dataclass(frozen=True, slots=True)
class Rollout:
    """One session: what its agent does with an answer before it sends it back, and what must come of that."""

    title: str
    sends_reasoning: bool
    trims: bool
    causes: frozenset[str]
    """Of its breaks. None: it is one sample."""


_STRIPPED: Final = frozenset({"stripped_reasoning"})
_BOTH: Final = frozenset({"stripped_reasoning", "whitespace"})
# A parser leaves line ends of the thought and of the tool call in the text; an agent that trims it is as one expects.
STOCK: Final = (
    Rollout("stock template, the agent leaves reasoning out", sends_reasoning=False, trims=True, causes=_STRIPPED),
    Rollout("stock template, the agent sends its reasoning", sends_reasoning=True, trims=True, causes=_STRIPPED),
    Rollout("stock template, the agent changes nothing", sends_reasoning=True, trims=False, causes=_BOTH),
)
KEEPING: Final = (
    Rollout("keeping template, the agent leaves reasoning out", sends_reasoning=False, trims=True, causes=_STRIPPED),
    Rollout("keeping template, the agent sends its reasoning", sends_reasoning=True, trims=True, causes=frozenset()),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engines.drift", description=__doc__)
    known = {setup.name: setup for setup in SETUPS if "--reasoning-parser" in setup.arguments}
    parser.add_argument("--only", choices=sorted(known), default="dynamo", help="the engine; dynamo unless given")
    setup = known[parser.parse_args(arguments).only]
    version = prepare(setup)
    print(f"{setup.title.format(version=version)}\n")
    wrong = _of(setup, MODEL, STOCK)
    with keeping() as model:
        wrong += _of(setup, model, KEEPING)
    for finding in wrong:
        print(f"WRONG: {finding}")
    return int(bool(wrong))


@contextmanager
def keeping() -> Iterator[Path]:
    """The tiny model with a template that keeps every thought."""
    with tempfile.TemporaryDirectory(prefix="keeping-") as folder:
        model = Path(folder) / MODEL.name
        shutil.copytree(MODEL, model)
        for name in ("chat_template.jinja", "tokenizer_config.json"):
            stock = (MODEL / name).read_text()
            assert _STRIPS in stock, f"{name} is not the template that this was written for"
            (model / name).write_text(stock.replace(_STRIPS, _KEEPS))
        yield model


def _of(setup: Setup, model: Path, rollouts: Sequence[Rollout]) -> list[str]:
    with (
        tempfile.TemporaryDirectory() as folder,
        running(setup, model=model) as engine,
        serving(f"{engine},tokenizer={model}", Path(folder)) as api,
    ):
        return [finding for rollout in rollouts for finding in _findings(rollout, api)]


def _findings(rollout: Rollout, api: Api) -> Iterator[str]:
    session = api.create_session("drift", "exact")
    with Agent(session.base_url, api_key=session.key) as agent:
        calls = _talk(agent, rollout)
    api.finish(session.session_id)
    drift, samples = api.drift(session.session_id), api.samples(session.session_id)
    print(f"## {rollout.title}: {len(samples)} {'sample' if len(samples) == 1 else 'samples'}\n", flush=True)
    subprocess.run([sys.executable, "-m", "gateway", "drift", session.session_id, "--url", api.url], check=False)
    print(flush=True)
    yield from (f"{rollout.title}: {each}" for each in _differences(rollout, calls, drift, samples))


def _talk(agent: Agent, rollout: Rollout) -> int:
    """Every question with the calls of the tool that it leads to; how many calls of the model that were."""
    messages: list[Message] = []
    calls = 0
    for asked in _ASKED:
        messages.append({"role": "user", "content": asked})
        while calls < _MOST_CALLS:
            body = {"model": "tiny", "temperature": 0, "max_tokens": 100, "tools": [WEATHER], "messages": messages}
            told = agent.ask("chat", body).documents[0]["choices"][0]["message"]
            calls += 1
            messages.append(_sent_back(told, rollout))
            called = told.get("tool_calls") or ()
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": '{"temp_c": 21}'} for call in called]
            if not called:
                break
    return calls


def _sent_back(told: Message, rollout: Rollout) -> Message:
    text = told.get("content") or ""
    calls = told.get("tool_calls")
    thought = next((told[name] for name in _REASONING if told.get(name)), None)
    if thought and not text and not calls:
        text, thought = thought, None  # vLLM's parser takes an answer without a thought for one.
    message = {"role": "assistant", "content": text.strip() if rollout.trims else text}
    if calls:
        message["tool_calls"] = calls
    if rollout.sends_reasoning and thought:
        message["reasoning_content"] = thought
    return message


def _differences(rollout: Rollout, calls: int, drift: dict[str, Any], samples: list[dict[str, Any]]) -> Iterator[str]:
    broken = [call["broken"] for call in drift["calls"] if call["broken"] is not None]
    if drift["counts"]["calls"] != calls or drift["counts"]["unjudged"]:
        yield f"{calls} calls were made, and the report has {drift['counts']}"
    if (causes := {each["cause"] for each in broken}) != rollout.causes:
        yield f"the causes are {sorted(causes)} and not {sorted(rollout.causes)}"
    if len(samples) != len(broken) + 1:
        yield f"{len(broken)} breaks make {len(samples)} samples"


if __name__ == "__main__":
    sys.exit(main())
