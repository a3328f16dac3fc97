"""vLLM, from 0.10.2 on: ids on the choice, delta by delta, in streams and whole answers alike.

Sources: the released wheels 0.10.1.1 … 0.33.0, and a running 0.32.0 (its answers are in the recordings).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from msgspec import Raw

from adapters import vllm_control
from adapters.answer_shape import WholeAnswer
from adapters.control import Action, Command, EnginePause
from adapters.detect import Question, Replies
from adapters.draft import Draft, Flag
from adapters.engine import OpenAIEngine, parse_version, path_of
from adapters.fold import rules_with
from adapters.openai_shape import Shape
from adapters.places import Place, Source
from adapters.plan import Plan, Strip
from adapters.probe import chat_probe, member, probed
from adapters.prompts import ReadIds
from adapters.raw import TRUE, join_array, join_object, open_array, open_object, told
from adapters.request import CanonicalRequest
from adapters.rules import First, Joined, Last
from adapters.schema import Capture, Completion, PlanMode
from adapters.server import Server
from adapters.token_ids import TokenIds
from adapters.vllm_surfaces import read_surface

NO_PARSERS: Final = "no_parsers"
"""The configuration's word that the server runs neither a tool nor a reasoning parser."""

_CHAT_LOGPROBS: Final = Place("choice", ("logprobs", "content"), column="logprob")
_TOKEN_LOGPROBS: Final = Place("choice", ("logprobs", "token_logprobs"))

SHAPE: Final = Shape(
    sources=(
        Source(Place("choice", ("token_ids",)), (_CHAT_LOGPROBS, _TOKEN_LOGPROBS)),
        # /inference/v1/generate from 0.32 on.
        Source(Place("choice", ("logprobs", "content"), column="token_id"), (_CHAT_LOGPROBS,)),
        # `return_tokens_as_token_ids`, which that endpoint always did before: "token_id:N".
        Source(Place("choice", ("logprobs", "content"), column="token", texts=True), (_CHAT_LOGPROBS,)),
        Source(Place("choice", ("logprobs", "tokens"), texts=True), (_TOKEN_LOGPROBS,)),
    ),
    prompt=(Place("root", ("prompt_token_ids",)), Place("choice", ("prompt_token_ids",))),
    rules=rules_with(
        root={"prompt_token_ids": First, "kv_transfer_params": Last},
        choice={"token_ids": Joined, "prompt_token_ids": First, "weight_versions": Last},
    ),
)

_TOKEN_IDS: Final = Flag(
    "token_ids",
    "return_token_ids",
    Strip(root=frozenset({"prompt_token_ids"}), choice=frozenset({"token_ids", "prompt_token_ids"})),
)
_WEIGHT_VERSIONS: Final = Flag(
    "weight_versions", "return_weight_versions", Strip(choice=frozenset({"weight_versions"}))
)


class Vllm(OpenAIEngine):
    """Unknown fields are ignored by every version, so a flag too many costs nothing; a flag too few costs ids."""

    engine: ClassVar[str] = "vllm"
    shape: ClassVar[Shape] = SHAPE
    counts_at = "/tokenize"
    since = (
        ((0,), frozenset({"logprobs", "usage"})),
        ((0, 10, 2), frozenset({"token_ids"})),
        # 0.10.2 to 0.12 send nothing for a step whose text a parser swallowed: its ids are lost (vLLM issue 27482).
        ((0, 13), frozenset({"silent_token_ids"})),
        # Up to 0.28 `top_logprobs: 0` is not safe; a single one is asked for and taken out again.
        ((0, 29), frozenset({"zero_top_logprobs"})),
        ((0, 33), frozenset({"weight_versions"})),
    )
    # A server that does not tell its version is taken for one of the last year; the count of ids would show the loss.
    assumed = frozenset({"logprobs", "usage", "token_ids", "silent_token_ids"})
    asks: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "token_ids": ("return_token_ids",),
        "weight_versions": ("return_weight_versions",),
        "logprobs": ("logprobs", "top_logprobs"),
        "usage": ("stream_options", "include_usage"),
    }
    configurable: ClassVar = frozenset({NO_PARSERS})
    owners: ClassVar = frozenset({"vllm"})

    def recognise(self, replies: Replies) -> Server | None:
        named = super().recognise(replies)
        if named is not None:
            return named
        # A proxy may give the models another owner, and leave these two as they are.
        health = replies.get("/health")
        if self.version_told(replies) is None or health is None or health.status != 200 or health.body:
            return None
        return self.heard(replies, known="assumed")

    def probes(self, server: Server) -> tuple[Question, ...]:
        if server.known == "configured" or (server.known != "assumed" and parse_version(server.version)):
            return ()
        return chat_probe(server, _TOKEN_IDS.feature, {_TOKEN_IDS.name: TRUE})

    def corrected(self, server: Server, replies: Replies) -> Server:
        seen = probed(replies, _TOKEN_IDS.feature)
        if seen is None:
            return server
        features = server.features - {_TOKEN_IDS.feature}
        if member(seen.choice, "token_ids") is not None:
            features |= {_TOKEN_IDS.feature}
        return replace(server, features=features, known="probed")

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        draft = Draft(_with_thoughts(request), server)
        draft.hide_reasoning()
        draft.leave_out_unreachable_limits()
        if not _echoes(request):
            draft.ask(_TOKEN_IDS)
        draft.ask(_WEIGHT_VERSIONS)
        if request.endpoint == "chat":
            draft.ask_chat_logprobs(0 if draft.has("zero_top_logprobs") else 1)
        elif not _echoes(request):
            draft.ask_completion_logprobs()
        mode, reason = _mode(request, server, capture)
        if mode == "streamed":
            draft.ask_usage()
        without = _NONE_BESIDE_AN_ECHO if _echoes(request) and not request.return_token_ids else None
        return draft.plan(mode, path_of(request), reason, without)

    def counting(self, request: CanonicalRequest) -> Question | None:
        return super().counting(_with_thoughts(request))

    def control(self, action: Action, mode: EnginePause, server: Server) -> Command:
        return vllm_control.command(action, mode, server)

    def read(self, answer: WholeAnswer, plan: Plan, prompt_ids: ReadIds = TokenIds.from_json) -> Completion:
        surface = read_surface(answer, plan)
        return surface if surface is not None else super().read(answer, plan, prompt_ids)


def _mode(request: CanonicalRequest, server: Server, capture: Capture) -> tuple[PlanMode, str | None]:
    if not request.stream:
        return "whole", None
    loses_ids = "token_ids" in server.features and "silent_token_ids" not in server.features
    if request.endpoint == "chat" and loses_ids and NO_PARSERS not in server.features and capture != "stream":
        return "buffered", "vLLM before 0.13 streams no ids for steps that a tool or reasoning parser swallows"
    return "streamed", None


def _with_thoughts(request: CanonicalRequest) -> CanonicalRequest:
    """From 0.16 on thoughts are read at `reasoning` alone, up to 0.11 at `reasoning_content`: so both are told."""
    if not request.translated or b'"reasoning_content"' not in bytes(request.fields["messages"]):
        return request
    messages = [
        join_object({**message, "reasoning": thought}) if told(thought := message.get("reasoning_content")) else raw
        for raw in open_array(request.fields["messages"])
        for message in (open_object(raw),)
    ]
    return replace(request, fields={**request.fields, "messages": Raw(join_array(messages))})


_NONE_BESIDE_AN_ECHO: Final = (
    "asked for token ids, vLLM leaves an echoed prompt out of the text, so it was not asked; `return_token_ids` asks"
)


def _echoes(request: CanonicalRequest) -> bool:
    """Asked for ids, vLLM leaves the echoed prompt out of the text, and the agent would miss it. Its own flag stays."""
    echo: Raw | None = request.fields.get("echo")
    return request.endpoint == "completions" and echo == TRUE
