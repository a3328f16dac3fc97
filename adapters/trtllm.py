"""TensorRT-LLM's `trtllm-serve`: ids with completions that are not detokenized, and with nothing else.

Source: stored files of `tensorrt_llm/serve` of 2026; any field that it does not know is a 400.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from adapters.engine import OpenAIEngine
from adapters.fold import rules_with
from adapters.openai_shape import Shape
from adapters.places import Place, Source
from adapters.rules import First, Joined

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


class TensorRTLLM(OpenAIEngine):
    """Nothing is asked for but usage: its one flag for ids, `detokenize: false`, takes the agent's text away."""

    engine: ClassVar[str] = "trtllm"
    shape: ClassVar[Shape] = SHAPE
    since = (((0,), frozenset({"usage"})),)
    assumed = frozenset({"usage"})
    asks: ClassVar[Mapping[str, tuple[str, ...]]] = {"usage": ("stream_options", "include_usage")}
    owners: ClassVar = frozenset({"tensorrt_llm"})
    no_ids: ClassVar = "TensorRT-LLM gives token ids only with completions that are not detokenized"
