"""Legacy completions through the gateway, in the OpenAI SDK's own parsed objects: prompts of all kinds, and echoes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openai.types import Completion

from adapters.schema import Trace
from adapters.scripts.replies import fixed
from adapters.scripts.speech import say
from adapters.scripts.vocabulary import encode
from gateway.scripted import ScriptedServer
from tests.gateway.harness import traces_in
from tests.gateway.test_facade import Pair, pair

# Engine, version, variant; and whether it tells the ids of completions.
SERVERS = [
    ("vllm", "0.33.0", None, True),
    ("vllm", "0.11.0", None, True),
    ("sglang", "0.5.23", None, True),
    ("sglang", "0.5.17", None, True),
    ("sglang", "0.5.14", None, False),
    ("sglang", "0.5.9", "agentcore", False),
    ("dynamo", "1.6.1", "vllm", True),
    ("dynamo", "1.6.1", "sglang", True),
    ("openai", None, None, False),
]

ONE, TWO = "Once upon a time", "The quick brown fox"
PROMPTS = [[ONE], [ONE, TWO]]
SAID = [say(" there was a model."), say(" jumps. ☂ 👋"), say(" a third"), say(" and a fourth one.")]


def _prompt(prompts: list[str], kind: str) -> Any:
    told: list[Any] = [list(encode(prompt)) if kind == "ids" else prompt for prompt in prompts]
    return told if len(told) > 1 else told[0]


async def _whole(clients: Pair, **asked: Any) -> list[Completion]:
    return [await client.completions.create(**asked) for client in (clients.direct, clients.through)]


async def _folded(clients: Pair, **asked: Any) -> list[dict[str, Any]]:
    """What each client makes of a stream: of each choice its text, logprobs and end; and the usage."""
    made = []
    for client in (clients.direct, clients.through):
        stream = await client.completions.create(**asked, stream=True, stream_options={"include_usage": True})
        texts: dict[int, str] = {}
        logprobs: dict[int, list[float | None]] = {}
        ends: dict[int, str] = {}
        usages = []
        async for chunk in stream:
            usages += [(chunk.usage.prompt_tokens, chunk.usage.completion_tokens)] if chunk.usage else []
            for choice in chunk.choices:
                texts[choice.index] = texts.get(choice.index, "") + (choice.text or "")
                if choice.logprobs:
                    logprobs.setdefault(choice.index, []).extend(choice.logprobs.token_logprobs or [])
                if choice.finish_reason:
                    ends[choice.index] = choice.finish_reason
        made.append({"texts": texts, "logprobs": logprobs, "ends": ends, "usages": usages})
    return made


def _told(answer: Completion) -> dict[str, Any]:
    """Without stamps, null members, and the ids that a patched server gives without being asked."""

    def bare(value: Any) -> Any:
        if isinstance(value, list):
            return [bare(item) for item in value]
        if isinstance(value, dict):
            left_out = {"id", "created", "system_fingerprint", "token_ids", "prompt_token_ids"}
            return {k: bare(v) for k, v in value.items() if v not in (None, []) and k not in left_out}
        return value

    told: dict[str, Any] = bare(answer.model_dump(warnings=False))
    return told


def _holds(trace: Trace, prompts: list[str], n: int) -> bool:
    """Whether the trace has each prompt with its own choices, token for token."""
    for at, choice in enumerate(trace.choices):
        prompt = trace.prompt_token_ids if len(prompts) == 1 else choice.prompt_token_ids
        if tuple(prompt or ()) != encode(prompts[at // n]) or tuple(choice.token_ids or ()) != SAID[at].ids:
            return False
    return len(trace.choices) == n * len(prompts)


@pytest.mark.parametrize(("kind", "n"), [("text", 1), ("text", 2), ("ids", 2)])
@pytest.mark.parametrize(("engine", "version", "variant", "tells"), SERVERS)
async def test_each_prompt_has_its_own_choices_with_and_without_the_gateway(
    tmp_path: Path, engine: str, version: str | None, variant: str | None, tells: bool, kind: str, n: int
) -> None:
    server = ScriptedServer(engine, version=version, variant=variant, reply=fixed(*SAID))
    async with pair(tmp_path, server) as clients:
        for prompts in PROMPTS:
            asked: dict[str, Any] = {"model": "scripted", "prompt": _prompt(prompts, kind), "n": n, "max_tokens": 50}
            for more in ({}, {"logprobs": 2}):
                direct, through = await _whole(clients, **asked, **more)
                assert _told(through) == _told(direct), (prompts, more)
                folded = await _folded(clients, **asked, **more)
                assert folded[1] == folded[0], (prompts, more)
                assert len(folded[1]["usages"]) == 1
    traces = await traces_in(tmp_path / "rollouts.db")
    exact = [_holds(trace, PROMPTS[number // 4], n) for number, trace in enumerate(traces) if trace.fidelity == "exact"]
    assert all(exact)
    assert all(trace.fidelity_reason for trace in traces if trace.fidelity != "exact")
    assert all(trace.logprobs_reason for trace in traces if trace.logprobs_fidelity != "exact")
    if tells and (engine, variant) != ("dynamo", "sglang"):
        assert len(exact) == 8


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("engine", "version", "variant", "tells"), SERVERS)
async def test_an_echoed_prompt_is_the_agents_to_see_and_no_sampled_token(
    tmp_path: Path, engine: str, version: str | None, variant: str | None, tells: bool, stream: bool
) -> None:
    server = ScriptedServer(engine, version=version, variant=variant, reply=fixed(*SAID))
    asked: dict[str, Any] = {"model": "scripted", "prompt": PROMPTS[1], "n": 2, "echo": True, "max_tokens": 50}
    async with pair(tmp_path, server) as clients:
        for more in ({}, {"logprobs": 2}, {"logprobs": 0}):
            if stream:
                folded = await _folded(clients, **asked, **more)
                assert folded[1] == folded[0], more
            else:
                direct, through = await _whole(clients, **asked, **more)
                assert _told(through) == _told(direct), more
                if engine in ("vllm", "sglang"):
                    assert through.choices[2].text == TWO + SAID[2].text("content")
    for trace in await traces_in(tmp_path / "rollouts.db"):
        if trace.fidelity == "exact":
            assert _holds(trace, PROMPTS[1], 2)
        else:
            assert trace.fidelity_reason
        for choice, said in zip(trace.choices, SAID, strict=True):
            assert choice.token_ids is None or tuple(choice.token_ids) == said.ids
            assert choice.logprobs is None or choice.logprobs == said.logprobs


@pytest.mark.parametrize("logprobs", [None, 0, 2])
@pytest.mark.parametrize("stream", [False, True])
async def test_at_vllm_an_agent_that_wants_ids_too_has_them_in_the_place_of_an_echos_text(
    tmp_path: Path, stream: bool, logprobs: int | None
) -> None:
    server = ScriptedServer("vllm", reply=fixed(*SAID))
    asked = {"model": "scripted", "prompt": ONE, "echo": True, "return_token_ids": True, "logprobs": logprobs}
    async with pair(tmp_path, server) as clients:
        for more in ({}, {"return_token_ids": False}):
            body = {**asked, **more, "max_tokens": 50, "stream": stream}
            await clients.gateway.agent.post("/v1/completions", json=body)
    with_ids, without = await traces_in(tmp_path / "rollouts.db")
    assert (with_ids.fidelity, _holds(with_ids, [ONE], 1)) == ("exact", True)
    assert without.fidelity == "none"
    assert "leaves an echoed prompt out of the text" in (without.fidelity_reason or "")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("engine", "version", "variant", "tells"), SERVERS)
async def test_every_other_field_reaches_the_engine_as_it_came(
    tmp_path: Path, engine: str, version: str | None, variant: str | None, tells: bool, stream: bool
) -> None:
    server = ScriptedServer(engine, version=version, variant=variant, reply=fixed(*SAID))
    sent: dict[str, Any] = {
        "model": "scripted",
        "prompt": "def f(",
        "suffix": "return x",
        "best_of": 2,
        "seed": 7,
        "logit_bias": {"50256": -100},
        "presence_penalty": 0.5,
        "stop": ["\n\n"],
        "user": "u",
        "temperature": 0.25,
        "skip_special_tokens": False,
    }
    async with pair(tmp_path, server) as clients:
        response = await clients.gateway.agent.post("/v1/completions", json={**sent, "stream": stream})
        assert response.status_code == 200, response.text
    got = server.calls[-1].json
    assert {name: got.get(name) for name in sent} == sent
