"""TensorRT-LLM's `trtllm-serve`: ids with completions that are not detokenized, and with nothing else.

Source: stored files of `tensorrt_llm/serve` of 2026; any field that it does not know is a 400.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from adapters.draft import Draft
from adapters.engine import CHAT, COMPLETIONS, OpenAIEngine
from adapters.fold import rules_with
from adapters.openai_shape import Shape
from adapters.places import Place, Source
from adapters.plan import Plan
from adapters.request import CanonicalRequest
from adapters.rules import First, Joined
from adapters.schema import Capture, PlanMode
from adapters.server import Server

SHAPE: Final = Shape(
    sources=(
        Source(
            Place("choice", ("token_ids",)),
            (
                Place("choice", ("logprobs", "content"), column="logprob"),
                Place("choice", ("logprobs", "token_logprobs")),
            ),
        ),
    ),
    prompt=(Place("root", ("prompt_token_ids",)),),
    rules=rules_with(root={"prompt_token_ids": First}, choice={"token_ids": Joined}),
)
_NONE: Final = "TensorRT-LLM gives token ids only with completions that are not detokenized"


class TensorRTLLM(OpenAIEngine):
    """Nothing is asked for but usage: its one flag for ids, `detokenize: false`, takes the agent's text away."""

    engine: ClassVar[str] = "trtllm"
    shape: ClassVar[Shape] = SHAPE
    since = (((0,), frozenset({"usage"})),)
    assumed = frozenset({"usage"})
    asks: ClassVar[Mapping[str, tuple[str, ...]]] = {"usage": ("stream_options", "include_usage")}
    owners: ClassVar = frozenset({"tensorrt_llm"})

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        draft = Draft(request, server)
        draft.hide_reasoning()
        draft.translate_token_ids_flag()
        if request.stream:
            draft.ask_usage()
        mode: PlanMode = "streamed" if request.stream else "whole"
        return draft.plan(mode, CHAT if request.endpoint == "chat" else COMPLETIONS, without_ids=_NONE)
