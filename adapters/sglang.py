"""SGLang in all its versions, LLM360's fork and the agentcore patch: ids in whole answers, seldom in chat streams.

Sources: the released wheels 0.5.9 … 0.5.23, the fork's and the patch's own files, and a running 0.5.23 and a patched
0.5.9 (their answers are in the recordings).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from adapters import sglang_control
from adapters.answer_shape import Chunk, WholeAnswer
from adapters.control import Action, Command, EnginePause
from adapters.detect import Question, Replies
from adapters.draft import Draft, Flag
from adapters.engine import CHAT, COMPLETIONS, OpenAIEngine
from adapters.plan import Plan, Strip
from adapters.prompts import ReadIds
from adapters.raw import TRUE, text
from adapters.request import CanonicalRequest
from adapters.schema import Capture, Completion, LogprobsMode, PlanMode
from adapters.server import Server
from adapters.sglang_features import (
    ASSUMED,
    ORIGINAL_LOGPROBS,
    PATCHED,
    SINCE,
    VARIANTS,
    as_probed,
    decided,
    is_sglang,
    probes_of,
)
from adapters.sglang_generate import GENERATE, generated, open_frame, open_generated
from adapters.sglang_meta import lifted, with_meta
from adapters.sglang_shape import SHAPE
from adapters.token_ids import TokenIds

_PROMPT_TOKEN_IDS: Final = Flag(
    "prompt_token_ids", "return_prompt_token_ids", Strip(choice=frozenset({"prompt_token_ids"}))
)
# 0.5.17 alone calls them token_ids.
_TOKEN_IDS: Final = Flag("token_ids", "return_token_ids", Strip(choice=frozenset({"response_token_ids", "token_ids"})))
_COMPLETION_TOKEN_IDS: Final = Flag(
    "completion_token_ids", "return_completion_token_ids", Strip(choice=frozenset({"completion_token_ids"}))
)
_META_INFO: Final = Flag("meta_info", "return_meta_info", Strip(choice=frozenset({"meta_info"})))
_SGLEXT: Final = tuple(
    Flag("sglext", f"return_{ids}_in_sglext", Strip(nested=(("sglext", frozenset({ids})),)))
    for ids in ("input_ids", "output_ids")
)
# Legacy completions know this flag alone, and have both kinds of id on the choice.
_OF_COMPLETIONS: Final = Flag(
    "token_ids", "return_token_ids", Strip(choice=frozenset({"token_ids", "prompt_token_ids"}))
)
_OF_PATCH: Final = Strip(root=frozenset({"prompt_token_ids"}), choice=frozenset({"token_ids"}))
"""The patch tells them unasked."""

_WHOLE_ALONE: Final = (_PROMPT_TOKEN_IDS, _TOKEN_IDS, _COMPLETION_TOKEN_IDS, _META_INFO)
"""A chat stream with one of these is refused, by a server that knows it."""
_TELL_IDS: Final = frozenset({"token_ids", "completion_token_ids", "meta_info"})
"""The features by which a whole chat answer has completion ids."""

_LOSSY: Final = (
    "SGLang's chat streams tell no weight versions, and without a parser leave out logprobs, the end token's among them"
)
_REFUSES: Final = "this SGLang refuses to tell token ids in chat streams"
_NONE_IN_STREAM: Final = "this SGLang tells no token ids in chat streams, and `capture: stream` streams all the same"
_NONE_IN_CHAT: Final = (
    "this SGLang tells no token ids in chat (upstream does from 0.5.13 on), and its native /generate renders no chat"
)
_NONE_IN_COMPLETIONS: Final = "this SGLang tells no token ids in completions, as upstream does from 0.5.17 on"


class Sglang(OpenAIEngine):
    """Unknown fields are ignored by every version; flags that are known and not for streams are refused there."""

    engine: ClassVar[str] = "sglang"
    shape = SHAPE
    # Of messages in 0.5.23; where it knows prompts alone it refuses.
    counts_at = "/v1/tokenize"
    since = SINCE
    assumed = ASSUMED
    asks: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **{flag.feature: (flag.name,) for flag in _WHOLE_ALONE},
        "sglext": tuple(flag.name for flag in _SGLEXT),
        # Some decoding methods refuse them by the native name.
        "logprobs": ("logprobs", "top_logprobs", "return_logprob"),
        "usage": ("stream_options", "include_usage"),
    }
    # After temperature and penalties, unless the server's environment says otherwise, which it tells nobody.
    logprobs_mode: ClassVar[LogprobsMode] = "processed"
    configurable: ClassVar = frozenset({ORIGINAL_LOGPROBS}).union(*VARIANTS.values())
    variants: ClassVar = frozenset(filter(None, VARIANTS))
    owners: ClassVar = frozenset({"sglang"})

    def features_of(self, version: str | None, variant: str | None) -> frozenset[str]:
        return VARIANTS[variant] if variant in VARIANTS else super().features_of(version, variant)

    def recognise(self, replies: Replies) -> Server | None:
        heard = super().recognise(replies) or (self.heard(replies) if is_sglang(replies) else None)
        model = replies.get("/model_info")
        if heard is None or model is None:
            return heard
        return replace(heard, weight_version=text(model.fields().get("weight_version")))

    def version_told(self, replies: Replies) -> str | None:
        info = replies.get("/server_info")
        return None if info is None else text(info.fields().get("version"))

    def probes(self, server: Server) -> tuple[Question, ...]:
        return () if decided(server) else probes_of(server)

    def corrected(self, server: Server, replies: Replies) -> Server:
        seen = as_probed(server, replies)
        if seen is None:
            return server
        table = self.features_of(server.version, seen.variant)
        told = self.server(
            server.version,
            seen.variant,
            features=seen.features,
            without=table - seen.features,
            models=server.models,
            known="probed",
            context=server.context,
        )
        return replace(told, weight_version=server.weight_version)

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        draft = Draft(request, server)
        draft.hide_reasoning()
        draft.leave_out_unreachable_limits()
        draft.translate_token_ids_flag()
        return _plan_completions(draft) if request.endpoint == "completions" else _plan_chat(draft, capture)

    def open_chunk(self, data: bytes, plan: Plan) -> Chunk:
        return open_frame(data) if plan.path == GENERATE else super().open_chunk(data, plan)

    def open_answer(self, body: bytes, plan: Plan) -> WholeAnswer:
        return open_generated(body) if plan.path == GENERATE else super().open_answer(body, plan)

    def control(self, action: Action, mode: EnginePause, server: Server) -> Command:
        return sglang_control.command(action, mode)

    def read(self, answer: WholeAnswer, plan: Plan, prompt_ids: ReadIds = TokenIds.from_json) -> Completion:
        if plan.path == GENERATE:
            answer = generated(answer, plan.request)
        answer = lifted(answer)
        completion = with_meta(super().read(answer, plan, prompt_ids), answer)
        if completion.logprobs_mode is not None and ORIGINAL_LOGPROBS in plan.server.features:
            return replace(completion, logprobs_mode="raw")
        return completion


def _plan_completions(draft: Draft) -> Plan:
    """Streams lose nothing here: every step has its chunk, with or without text."""
    draft.ask(_OF_COMPLETIONS)
    tells = draft.has(_OF_COMPLETIONS.feature)
    if tells:
        draft.ask_completion_logprobs()
    mode: PlanMode = "streamed" if draft.request.stream else "whole"
    if mode == "streamed":
        draft.ask_usage()
    return draft.plan(mode, COMPLETIONS, without_ids=None if tells else _NONE_IN_COMPLETIONS)


def _plan_chat(draft: Draft, capture: Capture) -> Plan:
    mode, reason = _chat_mode(draft, capture)
    tells = draft.has(PATCHED)
    if tells:
        draft.strip |= _OF_PATCH
    elif mode == "streamed":
        tells = _ask_sglext(draft)
    else:
        tells = _ask_whole(draft)
    if tells:
        draft.ask_chat_logprobs(None)
    if mode == "streamed":
        draft.ask_usage()
    without = None if tells else _NONE_IN_STREAM if _TELL_IDS & draft.server.features else _NONE_IN_CHAT
    return draft.plan(mode, CHAT, reason, without)


def _chat_mode(draft: Draft, capture: Capture) -> tuple[PlanMode, str | None]:
    features = draft.server.features
    if not draft.request.stream:
        return "whole", None
    if capture == "stream" or not features & (_TELL_IDS | {PATCHED}):
        return "streamed", None
    if capture == "exact":
        return "buffered", _LOSSY
    refuses = any(draft.fields.get(flag.name) == TRUE and draft.has(flag.feature) for flag in _WHOLE_ALONE)
    if features & {"sglext", PATCHED} and not refuses:
        return "streamed", None
    return "buffered", _REFUSES


def _ask_sglext(draft: Draft) -> bool:
    for flag in _SGLEXT:
        draft.ask(flag)
    return draft.has("sglext")


def _ask_whole(draft: Draft) -> bool:
    """Of the two ways to have ids only one, or the answer has them all twice: the agent's, if it has chosen."""
    if any(draft.fields.get(flag.name) == TRUE for flag in _SGLEXT) and draft.has("sglext"):
        return _ask_sglext(draft)
    for flag in (_PROMPT_TOKEN_IDS, _TOKEN_IDS, _COMPLETION_TOKEN_IDS):
        draft.ask(flag)
    named = draft.has("token_ids") or draft.has("completion_token_ids")
    # It is large. It alone tells the ids from 0.5.13 to 0.5.16, and the weights of any choice but the first.
    if not named or not decided(draft.server) or draft.request.n > 1:
        draft.ask(_META_INFO)
    return bool(_TELL_IDS & draft.server.features)
