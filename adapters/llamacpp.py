"""llama.cpp's server: all ids of a whole answer beside it in `__verbose`; its streams lose some. No prompt ids.

Source: `tools/server` as llama-cpp-python 0.3.36 vendors it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Final

from adapters.answer_shape import Chunk, WholeAnswer
from adapters.detect import Replies
from adapters.draft import Draft, Flag
from adapters.engine import OpenAIEngine, mode_where_streams_lose, path_of
from adapters.fold import rules_with
from adapters.llamacpp_native import native_answer, native_chunk
from adapters.openai_shape import Shape
from adapters.places import Place, Source
from adapters.plan import Plan, Strip
from adapters.raw import told
from adapters.request import CanonicalRequest
from adapters.rules import Joined
from adapters.schema import Capture
from adapters.server import Server

_VERBOSE: Final = "__verbose"
_LOGPROBS: Final = Place("choice", ("logprobs", "content"), column="logprob")

SHAPE: Final = Shape(
    sources=(
        Source(Place("beside", (_VERBOSE, "tokens")), (_LOGPROBS,)),
        # The native endpoint.
        Source(Place("choice", ("tokens",)), (_LOGPROBS,)),
        # Without the end token in a stream, and without a stop word's anywhere.
        Source(Place("choice", ("logprobs", "content"), column="id"), (_LOGPROBS,)),
    ),
    rules=rules_with(choice={"tokens": Joined}),
)

_VERBOSE_FLAGS: Final = (
    Flag("token_ids", "return_tokens", Strip()),
    Flag("token_ids", "verbose", Strip(root=frozenset({_VERBOSE}))),
)
_LOSSY: Final = "llama.cpp's streams leave out the ids of steps without text"
_OURS: Final = Strip(choice=frozenset({"logprobs"}))
_CHAT_LOGPROBS: Final = Flag("logprobs", "logprobs", _OURS)
_COMPLETION_LOGPROBS: Final = Flag("logprobs", "logprobs", _OURS, b"1")


class LlamaCpp(OpenAIEngine):
    """Unknown fields are ignored, so a flag too many costs nothing."""

    engine: ClassVar[str] = "llamacpp"
    shape: ClassVar[Shape] = SHAPE
    since = (((0,), frozenset({"token_ids", "logprobs", "usage"})),)
    assumed = frozenset({"token_ids", "logprobs", "usage"})
    asks: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "token_ids": ("return_tokens", "verbose"),
        "logprobs": ("logprobs",),
        "usage": ("stream_options", "include_usage"),
    }
    owners: ClassVar = frozenset({"llamacpp"})

    def recognise(self, replies: Replies) -> Server | None:
        # A proxy may rename the models' owner, or the header.
        served = any(reply.headers.get("server", "").lower() == "llama.cpp" for reply in replies.values())
        return self.heard(replies) if served else super().recognise(replies)

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        draft = Draft(request, server)
        draft.hide_reasoning()
        draft.translate_token_ids_flag()
        mode, reason = mode_where_streams_lose(request, capture, _LOSSY)
        if mode != "streamed" and request.expected_choices == 1:
            for flag in _VERBOSE_FLAGS:
                draft.ask(flag)
        if not request.logprobs:
            draft.ask(_CHAT_LOGPROBS if request.endpoint == "chat" else _COMPLETION_LOGPROBS)
            draft.logprobs_asked = draft.has("logprobs")
        if mode == "streamed":
            draft.ask_usage()
        return draft.plan(mode, path_of(request), reason)

    def open_chunk(self, data: bytes, plan: Plan) -> Chunk:
        return native_chunk(super().open_chunk(data, plan))

    def open_answer(self, body: bytes, plan: Plan) -> WholeAnswer:
        answer = native_answer(super().open_answer(body, plan))
        verbose = answer.root.get(_VERBOSE)
        if len(answer.choices) != 1 or not told(verbose):
            return answer
        return replace(answer, beside=({_VERBOSE: verbose},))
