"""The sampling parameters that a session pins: they stand in each of its calls, whatever the agent asks for there."""

from __future__ import annotations

from collections.abc import Mapping, Set
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import msgspec
from msgspec import Raw

from adapters.request import CanonicalRequest
from adapters.schema import Sampling

SAMPLING_FIELDS: Final = (
    "best_of",
    "frequency_penalty",
    "ignore_eos",
    "logit_bias",
    "max_completion_tokens",
    "max_tokens",
    "min_p",
    "min_tokens",
    "n",
    "presence_penalty",
    "repetition_penalty",
    "seed",
    "stop",
    "stop_token_ids",
    "temperature",
    "top_k",
    "top_p",
)
"""Fields of a chat or a legacy completion."""

LIMITS: Final = ("max_completion_tokens", "max_tokens")
"""One parameter under two names: legacy completions and older servers know the second alone."""


def pinned(request: CanonicalRequest, sampling: Mapping[str, Any] | None) -> CanonicalRequest:
    """The request with these parameters in the place of the agent's own; null leaves one out."""
    if not sampling:
        return request
    fields = dict(request.fields)
    for name, value in sampling.items():
        sent_as = name
        if name in LIMITS:
            sent_as = limit_name(request, name)
            for limit in LIMITS:
                fields.pop(limit, None)
        if value is None:
            fields.pop(sent_as, None)
        else:
            fields[sent_as] = Raw(msgspec.json.encode(value))
    n = sampling.get("n", request.n)
    return replace(request, fields=fields, n=1 if n is None else n)


def limit_name(request: CanonicalRequest, name: str = "max_tokens") -> str:
    """The name under which the agent says its limit; `name` where it says none."""
    if request.endpoint == "completions":
        return "max_tokens"
    return next((each for each in LIMITS if each in request.fields), name)


def sampling_of(asked: CanonicalRequest | None, sent: CanonicalRequest | None, left_out: Set[str]) -> Sampling:
    """The sampling parameters that the agent set itself, and those that the backend got."""
    requested = _told(asked)
    effective = requested if sent is asked else _told(sent)
    return Sampling(requested, {name: value for name, value in effective.items() if name not in left_out})


def _told(request: CanonicalRequest | None) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if request is not None:
        for name in SAMPLING_FIELDS:
            if name in request.fields:
                # What is nested too deep to be read is no sampling parameter; the body has it as it came.
                with suppress(msgspec.DecodeError, RecursionError):
                    told[name] = msgspec.json.decode(request.fields[name])
    return told
