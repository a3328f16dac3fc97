"""NVIDIA Dynamo, a router over workers of other engines: ids beside the answer, in the root's `nvext`.

Sources: the wheels and stored files of 1.6.1 (`lib/llm/src/protocols/common/extensions.rs`, `components/src/dynamo`),
and a running 1.6.1 (its answers are in the recordings). The variant is the kind of worker: `vllm`, `sglang`, `trtllm`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from msgspec import Raw

from adapters.answer_shape import Chunk, ChunkChoice, WholeAnswer
from adapters.detect import Question, Replies, listed_models
from adapters.draft import Draft, Flag
from adapters.engine import CHAT, COMPLETIONS, PROCESSED_LOGPROBS, OpenAIEngine
from adapters.errors import read_error
from adapters.fold import rules_with
from adapters.openai_shape import Shape
from adapters.places import Place, Source
from adapters.plan import Plan, Strip
from adapters.probe import chat_probe, completion_probe, member, probed
from adapters.raw import TRUE, NotJSON, join_object, open_array, open_object, text, told
from adapters.request import CanonicalRequest
from adapters.rules import First, Joined, members
from adapters.schema import Capture, Completion, LogprobsMode
from adapters.server import Server
from adapters.token_ids import TokenIds

_NVEXT: Final = "nvext"
_EXTRA_FIELDS: Final = "extra_fields"

_TOKEN_IDS: Final = Place("beside", (_NVEXT, "completion_token_ids"))
_CHAT_LOGPROBS: Final = Place("choice", ("logprobs", "content"), column="logprob")
_TOKEN_LOGPROBS: Final = Place("choice", ("logprobs", "token_logprobs"))

SHAPE: Final = Shape(
    sources=(
        # Each chunk's own ids, or (pull request 9509) all of them on the last: either way the next part of the list.
        Source(_TOKEN_IDS, (_CHAT_LOGPROBS, _TOKEN_LOGPROBS)),
        Source(
            Place("beside", (_NVEXT, "engine_data", "completion_token_ids")),
            (Place("beside", (_NVEXT, "engine_data", "completion_logprobs")), _CHAT_LOGPROBS, _TOKEN_LOGPROBS),
            once=True,
        ),
        Source(Place("choice", ("logprobs", "content"), column="token_id"), (_CHAT_LOGPROBS,)),
        # /inference/v1/generate, which speaks as vLLM workers do.
        Source(Place("choice", ("token_ids",)), (_CHAT_LOGPROBS,)),
        Source(Place("choice", ("logprobs", "content"), column="token", texts=True), (_CHAT_LOGPROBS,)),
    ),
    prompt=(
        Place("beside", (_NVEXT, "prompt_token_ids")),
        Place("beside", (_NVEXT, "engine_data", "prompt_token_ids")),
        Place("root", ("prompt_token_ids",)),
    ),
    rules=rules_with(
        root={_NVEXT: (nvext := members({"completion_token_ids": Joined, "prompt_token_ids": First}))},
        choice={_NVEXT: nvext, "token_ids": Joined},
    ),
)


def _extra(name: str) -> Flag:
    """A string of `nvext.extra_fields`; a frontend that does not know it ignores it."""
    return Flag(name, _NVEXT, Strip(nested=((_NVEXT, frozenset({name})),)), f'"{name}"'.encode())


_EXTRAS: Final = ("completion_token_ids", "prompt_token_ids", "engine_data")
_COMPLETION_TOKEN_IDS, _PROMPT_TOKEN_IDS, _ENGINE_DATA = map(_extra, _EXTRAS)
# Without logprobs a choice of these has no such key at all. 0 gives none: the frontend asks whether it is above 0.
_COMPLETION_LOGPROBS: Final = Flag("completion_logprobs", "logprobs", Strip(choice=frozenset({"logprobs"})), b"1")

_BUSY: Final = (429, 503, 529)
_LOGPROBS_MODES: Final[Mapping[str | None, LogprobsMode]] = {"vllm": "raw", "sglang": "processed"}
"""By worker; of others it is not known."""


class Dynamo(OpenAIEngine):
    """An unknown parameter is a 400 that names it, so nothing is sent that Dynamo does not know."""

    engine: ClassVar[str] = "dynamo"
    shape: ClassVar[Shape] = SHAPE
    assumed = frozenset({"logprobs", "usage", "completion_token_ids", "prompt_token_ids"})
    owners: ClassVar = frozenset({"nvidia"})

    def features_of(self, version: str | None, variant: str | None) -> frozenset[str]:
        """By the worker: frontends do not tell their version, and ignore an extra field that they do not know."""
        if variant is None:
            return self.assumed | {"engine_data"}
        # An SGLang worker refuses logprobs of 1 and more, and completions have no way to ask for the sampled one alone.
        return self.assumed | {"engine_data", "completion_logprobs"} if variant == "vllm" else self.assumed

    def recognise(self, replies: Replies) -> Server | None:
        models = listed_models(replies)
        health = replies.get("/health")
        told_health = {} if health is None else health.fields()
        healthy = text(told_health.get("status")) == "healthy" and not {"endpoints", "instances"}.isdisjoint(
            told_health
        )
        # NVIDIA's hosted models are of several owners.
        owned = bool(models) and all(model.owned_by in self.owners for model in models)
        return self.heard(replies) if healthy or owned else None

    def probes(self, server: Server) -> tuple[Question, ...]:
        if server.known == "configured":
            return ()
        extras = Raw(b'{"extra_fields":["completion_token_ids","prompt_token_ids","engine_data"]}')
        sampled_alone = {"logprobs": TRUE, "top_logprobs": Raw(b"0")}
        return (
            *chat_probe(server, "ids", {_NVEXT: extras}),
            *chat_probe(server, "logprobs", sampled_alone),
            *completion_probe(server, "completion_logprobs", {"logprobs": Raw(_COMPLETION_LOGPROBS.value)}),
        )

    def corrected(self, server: Server, replies: Replies) -> Server:
        ids = probed(replies, "ids")
        if ids is None:
            return server
        from_vllm = member(ids.root, _NVEXT, "engine_data", "completion_token_ids") is not None
        seen = {name for name in _EXTRAS if member(ids.root, _NVEXT, name) is not None}
        if not from_vllm:
            # Other workers give no ids there.
            seen.discard("engine_data")
        for place, name in (("content", "logprobs"), ("token_logprobs", "completion_logprobs")):
            reply, answer = replies.get(name), probed(replies, name)
            if reply is None or reply.status in _BUSY:
                seen |= server.features & {name}
            elif answer is not None and member(answer.choice, "logprobs", place) is not None:
                seen.add(name)
        kept = server.features - {*_EXTRAS, "logprobs", "completion_logprobs"}
        variant = "vllm" if from_vllm else server.variant
        return replace(server, variant=variant, features=kept | seen, known="probed")

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        draft = Draft(_with_token_data(request), server)
        draft.hide_reasoning()
        # «Unsupported parameter(s): `return_token_ids`»
        draft.translate_token_ids_flag()
        alone = request.expected_choices == 1
        if alone:
            # «requires exactly one generated choice»
            draft.ask_in_list(_COMPLETION_TOKEN_IDS, _EXTRA_FIELDS)
        if alone or request.stream or request.endpoint == "completions":
            # In a stream each choice's last chunk has its own; in a whole answer the last choice's hides the others'.
            draft.ask_in_list(_ENGINE_DATA, _EXTRA_FIELDS)
        draft.ask_in_list(_PROMPT_TOKEN_IDS, _EXTRA_FIELDS)
        if request.endpoint == "chat":
            # Without `top_logprobs` the frontend makes it 1, which an SGLang worker refuses.
            draft.ask_chat_logprobs(0)
        elif not request.logprobs or request.fields.get("logprobs") == Raw(b"0"):
            draft.ask(_COMPLETION_LOGPROBS)
            draft.logprobs_asked = draft.has(_COMPLETION_LOGPROBS.feature)
        if request.stream:
            draft.ask_usage()
        if request.endpoint == "chat":
            return draft.plan("streamed" if request.stream else "whole", CHAT)
        if request.stream:
            return draft.plan("streamed", COMPLETIONS)
        # A chat's logprobs name the tokens of each choice; those of completions do not.
        return draft.plan("whole", COMPLETIONS, folded=not alone and draft.has(_ENGINE_DATA.feature))

    def open_chunk(self, data: bytes, plan: Plan) -> Chunk:
        chunk = super().open_chunk(data, plan)
        nvext = chunk.root.get(_NVEXT)
        if len(chunk.choices) != 1 or not told(nvext):
            return chunk
        [choice] = chunk.choices
        beside = ChunkChoice(choice.index, choice.fields, choice.delta, {_NVEXT: nvext})
        root = chunk.root
        if plan.request.prompts > 1:
            # Each choice has a prompt of its own, and the root's fold has room for one alone.
            others = {name: raw for name, raw in _opened(nvext).items() if name != "prompt_token_ids"}
            root = {**root, _NVEXT: Raw(join_object(others))}
        return Chunk(root, (beside,), chunk.error, chunk.odd)

    def read(self, answer: WholeAnswer, plan: Plan) -> Completion:
        nvext = _opened(answer.root.get(_NVEXT))
        completion = super().read(replace(answer, beside=_beside(answer, plan.request, nvext)), plan)
        mode = completion.logprobs_mode
        if mode is not None and PROCESSED_LOGPROBS not in plan.server.features:
            mode = _LOGPROBS_MODES.get(plan.server.variant)
        version = text(member(nvext, "engine_data", "weight_version"))
        return replace(completion, weight_version=version, logprobs_mode=mode)

    def refused(self, plan: Plan, status: int, body: bytes) -> Server | None:
        """Dynamo names what it refuses, and then what it would have taken: the first counts."""
        if status not in (400, 422):
            return None
        words, _, _ = read_error(status, body).message.partition(", expected")
        added = _added(plan)
        named = {feature for feature, names in added.items() if _names(words, names)}
        if not named and _names(words, _envelope(plan)):
            named = added.keys() & {*_EXTRAS}
        return replace(plan.server, features=plan.server.features - named, known="probed") if named else None


def _with_token_data(request: CanonicalRequest) -> CanonicalRequest:
    """`nvext.token_data` is the prompt, sent as ids: whoever sends it knows what the model was given."""
    raw = member(request.fields, _NVEXT, "token_data")
    if raw is None or request.prompts > 1:
        return request
    try:
        ids = TokenIds.from_json(raw)
    except ValueError:
        return request  # The server's to refuse.
    return replace(request, prompt_token_ids=(ids,)) if len(ids) else request


def _beside(answer: WholeAnswer, request: CanonicalRequest, nvext: Mapping[str, Raw]) -> tuple[Mapping[str, Raw], ...]:
    """What `nvext` says of each choice. In a whole answer with several choices it is known of the prompt alone."""
    if request.expected_choices == 1 or any(answer.beside):
        alone = request.expected_choices == 1 and len(answer.choices) == 1 and nvext
        return ({_NVEXT: Raw(join_object(nvext))},) if alone else answer.beside
    prompt = nvext.get("prompt_token_ids") or member(nvext, "engine_data", "prompt_token_ids")
    if request.prompts > 1 or not told(prompt):
        return ()
    return ({_NVEXT: Raw(join_object({"prompt_token_ids": prompt}))},) * len(answer.choices)


def _opened(raw: Raw | None) -> Mapping[str, Raw]:
    try:
        return open_object(raw) if told(raw) else {}
    except NotJSON:
        return {}


def _added(plan: Plan) -> dict[str, tuple[str, ...]]:
    """By feature, how an error would name what this plan added for it."""
    sent, agents = open_object(plan.body), plan.request.fields
    added: dict[str, tuple[str, ...]] = {name: (name,) for name in _extra_fields(sent) - _extra_fields(agents)}
    if sent.get("logprobs") != agents.get("logprobs"):
        feature = "logprobs" if plan.request.endpoint == "chat" else _COMPLETION_LOGPROBS.feature
        added[feature] = ("logprobs", "top_logprobs")
    if sent.get("stream_options") != agents.get("stream_options"):
        added["usage"] = ("stream_options", "include_usage")
    return added


def _envelope(plan: Plan) -> tuple[str, ...]:
    """The members that our extra fields stand in; what the agent sends itself is the agent's to answer for."""
    agents = plan.request.fields
    theirs = {_NVEXT: agents.get(_NVEXT), _EXTRA_FIELDS: member(agents, _NVEXT, _EXTRA_FIELDS)}
    return tuple(name for name, given in theirs.items() if not told(given))


def _names(words: str, names: tuple[str, ...]) -> bool:
    return any(re.search(rf"(?<![\w-]){name}(?![\w-])", words) for name in names)


def _extra_fields(fields: Mapping[str, Raw]) -> set[str]:
    raw = member(fields, _NVEXT, _EXTRA_FIELDS)
    try:
        return {name for item in (open_array(raw) if raw is not None else ()) if (name := text(item)) is not None}
    except NotJSON:
        return set()
