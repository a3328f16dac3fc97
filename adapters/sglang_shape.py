"""Where SGLang, its fork and its patch put token ids, and how their fields fold."""

from __future__ import annotations

from typing import Final

from adapters.fold import rules_with
from adapters.openai_shape import Shape
from adapters.places import Place, Source
from adapters.rules import First, Joined, members
from adapters.sglang_frames import Generated
from adapters.sglang_generate import GENERATED

_BESIDE: Final = (
    Place("choice", ("logprobs", "content"), column="logprob"),
    Place("choice", ("logprobs", "token_logprobs")),
)
_META_INFO: Final = ("meta_info", "output_token_logprobs")

SHAPE: Final = Shape(
    sources=(
        # Completions; chat of 0.5.17 alone; the agentcore patch, in streams too.
        Source(Place("choice", ("token_ids",)), _BESIDE),
        # Chat from 0.5.18 on.
        Source(Place("choice", ("response_token_ids",)), _BESIDE),
        # LLM360's fork.
        Source(Place("choice", ("completion_token_ids",)), _BESIDE),
        # From 0.5.20 on; in a stream once, after the last finish chunk.
        Source(Place("root", ("sglext", "output_ids"), by_choice=True), _BESIDE),
        # Native /generate.
        Source(Place("choice", ("output_ids",)), (Place("choice", _META_INFO, column=0),)),
        # Triples `[logprob, id, text]`: the only place from 0.5.13 to 0.5.16.
        Source(Place("choice", _META_INFO, column=1), (Place("choice", _META_INFO, column=0),)),
    ),
    prompt=(
        Place("choice", ("prompt_token_ids",)),
        Place("root", ("prompt_token_ids",)),
        Place("root", ("sglext", "input_ids")),
    ),
    rules=rules_with(
        root={"prompt_token_ids": First, "sglext": members({"input_ids": First, "output_ids": First})},
        choice={
            "token_ids": Joined,
            "response_token_ids": Joined,
            "completion_token_ids": Joined,
            "prompt_token_ids": First,
            GENERATED: Generated,
        },
    ),
    # With the header `x-sglext-ids-framed` the chunk with the ids has a name.
    events=frozenset({"sglext_ids"}),
)
