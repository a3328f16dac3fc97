"""What an SGLang can, by version and variant, and by what it answers to the detection's questions and probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from adapters.detect import Question, Replies
from adapters.engine import Version, parse_version
from adapters.probe import chat_probe, member, probed
from adapters.raw import TRUE, Fields, told
from adapters.server import Server

PATCHED: Final = "patched_token_ids"
"""The agentcore patch: chat tells ids unasked, at vLLM's places, in streams too."""
ORIGINAL_LOGPROBS: Final = "original_logprobs"
"""The configuration's word that the server runs with `SGLANG_RETURN_ORIGINAL_LOGPROB`: before temperature."""
AGENTCORE: Final = "agentcore"
LLM360: Final = "llm360"

_ALWAYS: Final = frozenset({"logprobs", "usage"})

SINCE: Final[Sequence[tuple[Version, frozenset[str]]]] = (
    ((0,), _ALWAYS),
    ((0, 5, 13), frozenset({"prompt_token_ids", "meta_info"})),
    ((0, 5, 17), frozenset({"token_ids"})),
    ((0, 5, 20), frozenset({"sglext"})),
)
VARIANTS: Final[Mapping[str | None, frozenset[str]]] = {
    # On 0.5.9, later 0.5.12; the project dropped it for 0.5.13.
    AGENTCORE: _ALWAYS | {PATCHED},
    # On some 0.5.10 or 0.5.11, with the first two of the flags that upstream took over in 0.5.13.
    LLM360: _ALWAYS | {"prompt_token_ids", "meta_info", "completion_token_ids"},
}
ASSUMED: Final = _ALWAYS | {"prompt_token_ids", "meta_info", "token_ids", "completion_token_ids"}
"""Of a server that tells no version: whole answers, asked by every flag, for those that it does not know it ignores."""

_FIRST_WITH_IDS: Final = (0, 5, 13)
_SIGNS: Final = frozenset({"internal_states", "tool_call_parser", "incremental_streaming_output", "stream_output"})

_WHOLE: Final = "whole_ids"
_SGLEXT: Final = "sglext_ids"
_WHOLE_FLAGS: Final = (
    "return_token_ids",
    "return_prompt_token_ids",
    "return_completion_token_ids",
    "return_meta_info",
)
_SGLEXT_FLAGS: Final = ("return_input_ids_in_sglext", "return_output_ids_in_sglext")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a server's answers to the probes show."""

    variant: str | None
    features: frozenset[str]


def is_sglang(replies: Replies) -> bool:
    """By signs that stay where a proxy gives the models another owner."""
    info, model = replies.get("/server_info"), replies.get("/model_info")
    shown = info is not None and "version" in (fields := info.fields()) and not _SIGNS.isdisjoint(fields)
    return shown or (model is not None and "weight_version" in model.fields())


def decided(server: Server) -> bool:
    """Whether it is known what the server can: below 0.5.13 it may be forked or patched, and a build is no release."""
    number = parse_version(server.version)
    released = number is not None and number >= _FIRST_WITH_IDS and ".dev" not in (server.version or "")
    return released or server.variant in VARIANTS or server.known in ("configured", "probed")


def probes_of(server: Server) -> tuple[Question, ...]:
    """Two whole chats, for asking both ways at once would give the ids twice and tell less."""
    return (
        *chat_probe(server, _WHOLE, dict.fromkeys(_WHOLE_FLAGS, TRUE)),
        *chat_probe(server, _SGLEXT, dict.fromkeys(_SGLEXT_FLAGS, TRUE)),
    )


def as_probed(server: Server, replies: Replies) -> Seen | None:
    """None where the probes teach nothing: no reply, a refusal, another shape."""
    whole, sglext = probed(replies, _WHOLE), probed(replies, _SGLEXT)
    if whole is None:
        return None
    if told(whole.root.get("prompt_token_ids")):
        return Seen(AGENTCORE, VARIANTS[AGENTCORE])
    features = _seen_on(whole.choice)
    if sglext is not None and member(sglext.root, "sglext", "output_ids") is not None:
        features |= {"sglext"}
    return Seen(LLM360 if "completion_token_ids" in features else server.variant, features)


def _seen_on(choice: Fields) -> frozenset[str]:
    places = {
        "response_token_ids": "token_ids",
        "token_ids": "token_ids",
        "completion_token_ids": "completion_token_ids",
        "prompt_token_ids": "prompt_token_ids",
        "meta_info": "meta_info",
    }
    return _ALWAYS | {feature for place, feature in places.items() if told(choice.get(place))}
