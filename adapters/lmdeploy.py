"""LMDeploy: ids as `output_ids`, logprobs in pairs with them; stop tokens in neither, nor counted. No prompt ids.

Source: the released wheel 0.18.0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from msgspec import Raw

from adapters.answer_shape import Chunk, ChunkChoice, WholeAnswer
from adapters.detect import Question, Replies
from adapters.draft import Draft, Flag
from adapters.engine import CHAT, COMPLETIONS, OpenAIEngine
from adapters.fold import rules_with
from adapters.openai_shape import Shape
from adapters.places import Place, Source
from adapters.plan import Plan, Strip
from adapters.probe import chat_probe, member, probed
from adapters.raw import TRUE, Fields, join_object, told
from adapters.request import CanonicalRequest
from adapters.rules import Joined
from adapters.schema import Capture, PlanMode
from adapters.server import Server

_PAIRS: Final = "output_token_logprobs"
_LOGPROBS: Final = Place("choice", (_PAIRS,), column=0)

SHAPE: Final = Shape(
    sources=(
        Source(Place("choice", ("output_ids",)), (_LOGPROBS,)),
        Source(Place("choice", (_PAIRS,), column=1), (_LOGPROBS,)),
    ),
    rules=rules_with(choice={"output_ids": Joined, _PAIRS: Joined}),
)

_TOKEN_IDS: Final = Flag("token_ids", "return_token_ids", Strip(choice=frozenset({"output_ids"})))
_RETURN_LOGPROB: Final = Flag("logprobs", "return_logprob", Strip(choice=frozenset({_PAIRS})))
_NONE_IN_COMPLETIONS: Final = "LMDeploy gives no token ids with completions, only with chats"


class LMDeploy(OpenAIEngine):
    """`return_logprob` is a 400 unless the server runs with `--logprobs-mode`: sent where a probe had an answer."""

    engine: ClassVar[str] = "lmdeploy"
    shape: ClassVar[Shape] = SHAPE
    since = (((0,), frozenset({"token_ids", "usage"})),)
    assumed = frozenset({"token_ids", "usage"})
    asks: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "token_ids": ("return_token_ids",),
        "logprobs": ("return_logprob",),
        "usage": ("stream_options", "include_usage"),
    }
    owners: ClassVar = frozenset({"lmdeploy"})

    def probes(self, server: Server) -> tuple[Question, ...]:
        if server.known == "configured":
            return ()
        return chat_probe(server, "logprobs", {_TOKEN_IDS.name: TRUE, _RETURN_LOGPROB.name: TRUE})

    def corrected(self, server: Server, replies: Replies) -> Server:
        seen = probed(replies, "logprobs")
        if seen is None or member(seen.choice, _PAIRS) is None:
            return server
        return replace(server, features=server.features | {"logprobs"}, known="probed")

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        draft = Draft(request, server)
        draft.hide_reasoning()
        draft.translate_token_ids_flag()
        if request.endpoint == "chat":
            draft.ask(_TOKEN_IDS)
            draft.ask(_RETURN_LOGPROB)
            draft.logprobs_asked |= draft.has("logprobs")
        if request.stream:
            draft.ask_usage()
        mode: PlanMode = "streamed" if request.stream else "whole"
        if request.endpoint == "completions":
            return draft.plan(mode, COMPLETIONS, without_ids=_NONE_IN_COMPLETIONS)
        return draft.plan(mode, CHAT)

    def open_chunk(self, data: bytes, plan: Plan) -> Chunk:
        chunk = super().open_chunk(data, plan)
        if not _is_generated(chunk.root):
            return chunk
        return Chunk(_usage(chunk.root), (ChunkChoice(0, _choice(chunk.root)),), chunk.error, chunk.odd)

    def open_answer(self, body: bytes, plan: Plan) -> WholeAnswer:
        answer = super().open_answer(body, plan)
        if not _is_generated(answer.root):
            return answer
        return replace(answer, root=_usage(answer.root), choices=({"index": Raw(b"0"), **_choice(answer.root)},))


def _is_generated(root: Mapping[str, Raw]) -> bool:
    """The native `/generate`, which is read where it was called by other means."""
    return "choices" not in root and told(root.get("meta_info"))


def _choice(frame: Mapping[str, Raw]) -> Fields:
    meta = {name: member(frame, "meta_info", name) for name in (_PAIRS, "finish_reason")}
    return {
        **{name: frame[name] for name in ("text", "output_ids") if name in frame},
        **{name: raw for name, raw in meta.items() if raw is not None},
    }


def _usage(frame: Mapping[str, Raw]) -> Fields:
    """At the end alone: frames count as they go, and the count of a stream that was cut would agree with it."""
    if member(frame, "meta_info", "finish_reason") is None:
        return {}
    counts = {name: member(frame, "meta_info", name) for name in ("prompt_tokens", "completion_tokens")}
    return {"usage": Raw(join_object({name: raw for name, raw in counts.items() if raw is not None}))}
