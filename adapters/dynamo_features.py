"""What a Dynamo can, which is its workers' to decide, and how that is found out from outside."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from msgspec import Raw

from adapters.detect import Question, Replies, listed_models
from adapters.probe import chat_probe, completion_probe, member, probed
from adapters.raw import TRUE, text
from adapters.server import Server

NVEXT: Final = "nvext"
EXTRA_FIELDS: Final = "extra_fields"
EXTRAS: Final = ("completion_token_ids", "prompt_token_ids", "engine_data")
"""What we ask for in `nvext.extra_fields`: each is a feature."""
COMPLETION_LOGPROBS: Final = "completion_logprobs"
TOKENS_AS_IDS: Final = "tokens_as_token_ids"
"""The frontend writes `token_id:N` for the tokens of logprobs, whatever the worker."""

_ALWAYS: Final = frozenset({"logprobs", "usage", "completion_token_ids", "prompt_token_ids", TOKENS_AS_IDS})
_OWNER: Final = "nvidia"
_LOGPROBS_AT: Final = {"logprobs": "content", COMPLETION_LOGPROBS: "token_logprobs"}
_BUSY: Final = (429, 503, 529)


def by_worker(variant: str | None) -> frozenset[str]:
    """Frontends do not tell their version, and ignore an extra field that they do not know."""
    if variant is None:
        return _ALWAYS | {"engine_data"}
    # An SGLang worker refuses logprobs of 1 and more, and completions have no way to ask for the sampled one alone.
    return _ALWAYS | {"engine_data", COMPLETION_LOGPROBS} if variant == "vllm" else _ALWAYS


def is_dynamo(replies: Replies) -> bool:
    health, models = replies.get("/health"), listed_models(replies)
    fields = {} if health is None else health.fields()
    names_workers = not {"endpoints", "instances"}.isdisjoint(fields)
    healthy = names_workers and text(fields.get("status")) == "healthy"
    # NVIDIA's hosted models are of several owners.
    return healthy or (bool(models) and all(model.owned_by == _OWNER for model in models))


def probes_of(server: Server) -> tuple[Question, ...]:
    """One probe for ids and one for each kind of logprobs, which a worker may refuse."""
    if server.known == "configured":
        return ()
    extras = Raw(b'{"extra_fields":["' + '","'.join(EXTRAS).encode() + b'"]}')
    return (
        *chat_probe(server, "ids", {NVEXT: extras}),
        *chat_probe(server, "logprobs", {"logprobs": TRUE, "top_logprobs": Raw(b"0")}),
        *completion_probe(server, COMPLETION_LOGPROBS, {"logprobs": Raw(b"1")}),
    )


def seen_in(server: Server, replies: Replies) -> Server:
    """The server as its answers to the probes show it."""
    ids = probed(replies, "ids")
    if ids is None:
        return server
    # Other workers have no ids there.
    from_vllm = member(ids.root, NVEXT, "engine_data", "completion_token_ids") is not None
    seen = {name for name in EXTRAS if member(ids.root, NVEXT, name) is not None}
    if not from_vllm:
        seen.discard("engine_data")
    for name, place in _LOGPROBS_AT.items():
        reply, answer = replies.get(name), probed(replies, name)
        if reply is None or reply.status in _BUSY:
            seen |= server.features & {name}
        elif answer is not None and member(answer.choice, "logprobs", place) is not None:
            seen.add(name)
    kept = server.features - {*EXTRAS, *_LOGPROBS_AT}
    return replace(server, variant="vllm" if from_vllm else server.variant, features=kept | seen, known="probed")
