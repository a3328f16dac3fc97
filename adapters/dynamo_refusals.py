"""Whose fault a Dynamo's 400 is: it names what it refuses, which this plan may have added, or the agent sent."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Raw

from adapters.dynamo_features import COMPLETION_LOGPROBS, EXTRA_FIELDS, EXTRAS, NVEXT, TOKENS_AS_IDS
from adapters.plan import Plan
from adapters.probe import member
from adapters.raw import NotJSON, open_array, open_object, text, told


def refused_features(plan: Plan, message: str) -> frozenset[str]:
    """The features whose fields the message refuses and the plan has added; none where it is the agent's to answer."""
    # After what it refuses it says what it would have taken.
    words, _, _ = message.partition(", expected")
    added = _added(plan)
    named = {feature for feature, names in added.items() if _names(words, names)}
    if not named and _names(words, _envelope(plan)):
        named = added.keys() & {*EXTRAS}
    return frozenset(named)


def _added(plan: Plan) -> dict[str, tuple[str, ...]]:
    """By feature, how an error would name what this plan added for it."""
    sent, agents = open_object(plan.body), plan.request.fields
    added: dict[str, tuple[str, ...]] = {name: (name,) for name in _extra_fields(sent) - _extra_fields(agents)}
    if sent.get("logprobs") != agents.get("logprobs"):
        feature = "logprobs" if plan.request.endpoint == "chat" else COMPLETION_LOGPROBS
        added[feature] = ("logprobs", "top_logprobs")
    if sent.get("return_tokens_as_token_ids") != agents.get("return_tokens_as_token_ids"):
        added[TOKENS_AS_IDS] = ("return_tokens_as_token_ids",)
    if sent.get("stream_options") != agents.get("stream_options"):
        added["usage"] = ("stream_options", "include_usage")
    return added


def _envelope(plan: Plan) -> tuple[str, ...]:
    """The members that our extra fields stand in; what the agent sends itself is the agent's to answer for."""
    agents = plan.request.fields
    theirs = {NVEXT: agents.get(NVEXT), EXTRA_FIELDS: member(agents, NVEXT, EXTRA_FIELDS)}
    return tuple(name for name, given in theirs.items() if not told(given))


def _names(words: str, names: tuple[str, ...]) -> bool:
    return any(re.search(rf"(?<![\w-]){name}(?![\w-])", words) for name in names)


def _extra_fields(fields: Mapping[str, Raw]) -> set[str]:
    raw = member(fields, NVEXT, EXTRA_FIELDS)
    try:
        return {name for item in (open_array(raw) if raw is not None else ()) if (name := text(item)) is not None}
    except NotJSON:
        return set()
