"""NVIDIA Dynamo, a router over workers of other engines: ids beside the answer, in the root's `nvext`.

Sources: the wheels and stored files of 1.6.1 (`lib/llm/src/protocols/common/extensions.rs`, `components/src/dynamo`),
and a running 1.6.1 (its answers are in the recordings). The variant is the kind of worker: `vllm`, `sglang`, `trtllm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from msgspec import Raw

from adapters import dynamo_control
from adapters.answer_shape import Chunk, ChunkChoice, WholeAnswer
from adapters.control import Action, Command, EnginePause
from adapters.detect import Question, Replies
from adapters.draft import Draft, Flag
from adapters.dynamo_features import (
    COMPLETION_LOGPROBS,
    EXTRA_FIELDS,
    EXTRAS,
    NVEXT,
    TOKENS_AS_IDS,
    by_worker,
    is_dynamo,
    probes_of,
    seen_in,
)
from adapters.dynamo_refusals import refused_features
from adapters.engine import CHAT, COMPLETIONS, PROCESSED_LOGPROBS, OpenAIEngine
from adapters.errors import read_error
from adapters.fold import rules_with
from adapters.openai_shape import Shape
from adapters.places import Place, Source
from adapters.plan import Plan, Strip
from adapters.probe import member
from adapters.prompts import ReadIds
from adapters.raw import TRUE, NotJSON, join_object, open_object, text, told
from adapters.request import CanonicalRequest
from adapters.rules import First, FirstOfAny, Joined, members
from adapters.schema import Capture, Completion, LogprobsMode
from adapters.server import Server
from adapters.token_ids import TokenIds

_TOKEN_IDS: Final = Place("beside", (NVEXT, "completion_token_ids"))
_CHAT_LOGPROBS: Final = Place("choice", ("logprobs", "content"), column="logprob")
_TOKEN_LOGPROBS: Final = Place("choice", ("logprobs", "token_logprobs"))

SHAPE: Final = Shape(
    sources=(
        # Each chunk's own ids, or (pull request 9509) all of them on the last: either way the next part of the list.
        Source(_TOKEN_IDS, (_CHAT_LOGPROBS, _TOKEN_LOGPROBS)),
        Source(
            Place("beside", (NVEXT, "engine_data", "completion_token_ids")),
            (Place("beside", (NVEXT, "engine_data", "completion_logprobs")), _CHAT_LOGPROBS, _TOKEN_LOGPROBS),
            once=True,
        ),
        Source(Place("choice", ("logprobs", "content"), column="token_id"), (_CHAT_LOGPROBS,)),
        # /inference/v1/generate, which speaks as vLLM workers do.
        Source(Place("choice", ("token_ids",)), (_CHAT_LOGPROBS,)),
        Source(Place("choice", ("logprobs", "content"), column="token", texts=True), (_CHAT_LOGPROBS,)),
        Source(Place("choice", ("logprobs", "tokens"), texts=True), (_TOKEN_LOGPROBS,)),
    ),
    prompt=(
        Place("beside", (NVEXT, "prompt_token_ids")),
        Place("beside", (NVEXT, "engine_data", "prompt_token_ids")),
        Place("root", ("prompt_token_ids",)),
    ),
    rules=rules_with(
        # Several prompts are each told with their choices; the root has room for one, and no say in what is exact.
        root={NVEXT: members({"completion_token_ids": Joined, "prompt_token_ids": FirstOfAny})},
        choice={NVEXT: members({"completion_token_ids": Joined, "prompt_token_ids": First}), "token_ids": Joined},
    ),
)


def _extra(name: str) -> Flag:
    """A string of `nvext.extra_fields`; a frontend that does not know it ignores it."""
    return Flag(name, NVEXT, Strip(nested=((NVEXT, frozenset({name})),)), f'"{name}"'.encode())


_COMPLETION_TOKEN_IDS, _PROMPT_TOKEN_IDS, _ENGINE_DATA = map(_extra, EXTRAS)
# Without logprobs a choice of these has no such key at all.
_COMPLETION_LOGPROBS: Final = Flag(COMPLETION_LOGPROBS, "logprobs", Strip(choice=frozenset({"logprobs"})), b"1")
# Sent where all logprobs are ours: an agent's own keep their texts.
_TOKENS_AS_IDS: Final = Flag(TOKENS_AS_IDS, "return_tokens_as_token_ids", Strip())

_LOGPROBS_MODES: Final[Mapping[str | None, LogprobsMode]] = {"vllm": "raw", "sglang": "processed"}
"""By worker; of others it is not known."""
_NONE_OF_SEVERAL: Final = (
    "of several completions in one call Dynamo tells the token ids with vLLM workers alone, or by the names that"
    " `return_tokens_as_token_ids` gives the tokens of logprobs"
)


class Dynamo(OpenAIEngine):
    """An unknown parameter is a 400 that names it, so nothing is sent that Dynamo does not know."""

    engine: ClassVar[str] = "dynamo"
    shape: ClassVar[Shape] = SHAPE
    since = ()
    assumed = by_worker(None)
    asks: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    configurable: ClassVar = by_worker("vllm")
    variants: ClassVar = frozenset({"vllm", "sglang", "trtllm"})
    # Its router's, where it is started with --router-session-affinity-ttl-secs.
    affinity: ClassVar[tuple[str, ...]] = ("x-dynamo-session-id",)

    def features_of(self, version: str | None, variant: str | None) -> frozenset[str]:
        return by_worker(variant)

    def recognise(self, replies: Replies) -> Server | None:
        return self.heard(replies) if is_dynamo(replies) else None

    def probes(self, server: Server) -> tuple[Question, ...]:
        return probes_of(server)

    def corrected(self, server: Server, replies: Replies) -> Server:
        return seen_in(server, replies)

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        draft = Draft(_with_token_data(request), server)
        draft.hide_reasoning()
        # «Unsupported parameter(s): `return_token_ids`»
        draft.translate_token_ids_flag()
        alone = request.expected_choices == 1
        if alone:
            # «requires exactly one generated choice»
            draft.ask_in_list(_COMPLETION_TOKEN_IDS, EXTRA_FIELDS)
        if alone or request.stream or request.endpoint == "completions":
            # In a stream each choice's last chunk has its own; in a whole answer the last choice's hides the others'.
            draft.ask_in_list(_ENGINE_DATA, EXTRA_FIELDS)
        draft.ask_in_list(_PROMPT_TOKEN_IDS, EXTRA_FIELDS)
        if request.endpoint == "chat":
            # Without `top_logprobs` the frontend makes it 1, which an SGLang worker refuses.
            draft.ask_chat_logprobs(0)
        elif not request.logprobs:
            draft.ask(_COMPLETION_LOGPROBS)
            draft.logprobs_asked = draft.has(_COMPLETION_LOGPROBS.feature)
        if request.stream:
            draft.ask_usage()
        if request.endpoint == "chat":
            return draft.plan("streamed" if request.stream else "whole", CHAT)
        # A chat's logprobs name the tokens of each choice; those of completions have to be asked to.
        tells_each = alone or draft.has(_ENGINE_DATA.feature) or _named(draft)
        without = None if tells_each else _NONE_OF_SEVERAL
        if request.stream:
            return draft.plan("streamed", COMPLETIONS, without_ids=without)
        return draft.plan("whole", COMPLETIONS, without_ids=without, folded=tells_each and not alone)

    def open_chunk(self, data: bytes, plan: Plan) -> Chunk:
        chunk = super().open_chunk(data, plan)
        nvext = chunk.root.get(NVEXT)
        if len(chunk.choices) != 1 or not told(nvext):
            return chunk
        [choice] = chunk.choices
        beside = ChunkChoice(choice.index, choice.fields, choice.delta, {NVEXT: nvext})
        return Chunk(chunk.root, (beside,), chunk.error, chunk.odd)

    def control(self, action: Action, mode: EnginePause, server: Server) -> Command:
        return dynamo_control.command(action, mode)

    def read(self, answer: WholeAnswer, plan: Plan, prompt_ids: ReadIds = TokenIds.from_json) -> Completion:
        nvext = _opened(answer.root.get(NVEXT))
        completion = super().read(replace(answer, beside=_beside(answer, plan.request, nvext)), plan, prompt_ids)
        mode = completion.logprobs_mode
        if mode is not None and PROCESSED_LOGPROBS not in plan.server.features:
            mode = _LOGPROBS_MODES.get(plan.server.variant)
        version = text(member(nvext, "engine_data", "weight_version"))
        return replace(completion, weight_version=version, logprobs_mode=mode)

    def refused(self, plan: Plan, status: int, body: bytes) -> Server | None:
        named = refused_features(plan, read_error(status, body).message) if status in (400, 422) else frozenset()
        return replace(plan.server, features=plan.server.features - named, known="probed") if named else None


def _named(draft: Draft) -> bool:
    """Asks that the logprobs of completions name the tokens by their ids, where nobody else reads them."""
    if draft.logprobs_asked and not draft.request.logprobs:
        draft.ask(_TOKENS_AS_IDS)
    return draft.logprobs_asked and draft.fields.get(_TOKENS_AS_IDS.name) == TRUE


def _with_token_data(request: CanonicalRequest) -> CanonicalRequest:
    """`nvext.token_data` is the prompt, sent as ids: whoever sends it knows what the model was given."""
    raw = member(request.fields, NVEXT, "token_data")
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
        return ({NVEXT: Raw(join_object(nvext))},) if alone else answer.beside
    prompt = nvext.get("prompt_token_ids") or member(nvext, "engine_data", "prompt_token_ids")
    if request.prompts > 1 or not told(prompt):
        return ()
    return ({NVEXT: Raw(join_object({"prompt_token_ids": prompt}))},) * len(answer.choices)


def _opened(raw: Raw | None) -> Mapping[str, Raw]:
    try:
        return open_object(raw) if told(raw) else {}
    except NotJSON:
        return {}
