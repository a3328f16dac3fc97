"""What an engine itself says that it sampled: asked directly, whole, by its own flags, without the gateway's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httpx

from tests.engines.cases import Case, Endpoint

Ids = tuple[int, ...]


class NotTold(Exception):
    """The engine refused to say; the message is its own."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """One choice, token for token."""

    prompt: Ids
    token_ids: Ids
    logprobs: tuple[float | None, ...]


def truths(url: str, engine: str, case: Case) -> tuple[Sampled, ...]:
    """One for each prompt of the case: what greedy decoding gives. Raises NotTold.

    A sampled case has its greedy counterpart here; whoever compares must know that its ids need not be the same.
    """
    body = case.request(stream=False)
    body.pop("n", None)
    body["temperature"] = 0
    prompts = body.get("prompt")
    if isinstance(prompts, list) and isinstance(prompts[0], str):
        return tuple(_truth(url, engine, case.endpoint, body | {"prompt": prompt}) for prompt in prompts)
    return (_truth(url, engine, case.endpoint, body),)


def _truth(url: str, engine: str, endpoint: Endpoint, body: dict[str, Any]) -> Sampled:
    body.setdefault("logprobs", True if endpoint == "chat" else 1)
    path = "/v1/chat/completions" if endpoint == "chat" else "/v1/completions"
    answer = httpx.post(url + path, json={**body, **_FLAGS[engine]}, timeout=180, trust_env=False)
    if answer.status_code != 200:
        raise NotTold(answer.text)
    sampled = _READERS[engine](answer.json(), endpoint)
    if len(sampled.token_ids) != len(sampled.logprobs):
        raise NotTold(f"{len(sampled.token_ids)} ids and {len(sampled.logprobs)} logprobs")
    return sampled


_FLAGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "vllm": {"return_token_ids": True},
    "sglang": {"return_token_ids": True, "return_meta_info": True},
    "dynamo": {"nvext": {"extra_fields": ["completion_token_ids", "prompt_token_ids"]}},
}


def _logprobs(choice: Mapping[str, Any], endpoint: Endpoint) -> tuple[float | None, ...]:
    if endpoint == "chat":
        return tuple(entry["logprob"] for entry in choice["logprobs"]["content"])
    return tuple(choice["logprobs"]["token_logprobs"])


def _vllm(answer: Mapping[str, Any], endpoint: Endpoint) -> Sampled:
    choice = answer["choices"][0]
    prompt = answer["prompt_token_ids"] if endpoint == "chat" else choice["prompt_token_ids"]
    return Sampled(tuple(prompt), tuple(choice["token_ids"]), _logprobs(choice, endpoint))


def _sglang(answer: Mapping[str, Any], endpoint: Endpoint) -> Sampled:
    choice = answer["choices"][0]
    prompt = tuple(choice["prompt_token_ids"])
    if endpoint == "completions":
        return Sampled(prompt, tuple(choice["token_ids"]), _logprobs(choice, endpoint))
    triples = choice["meta_info"]["output_token_logprobs"]
    if [triple[1] for triple in triples] != choice["response_token_ids"]:
        raise NotTold("meta_info and response_token_ids name different tokens")
    return Sampled(prompt, tuple(choice["response_token_ids"]), tuple(triple[0] for triple in triples))


def _dynamo(answer: Mapping[str, Any], endpoint: Endpoint) -> Sampled:
    told = answer["nvext"]
    logprobs = _logprobs(answer["choices"][0], endpoint)
    return Sampled(tuple(told["prompt_token_ids"]), tuple(told["completion_token_ids"]), logprobs)


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any], Endpoint], Sampled]]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "dynamo": _dynamo,
}
