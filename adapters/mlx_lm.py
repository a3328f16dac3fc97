"""mlx-lm's server: ids as the names of logprob entries, in whole chats alone. No prompt ids.

Source: the released wheel 0.32.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from adapters.answer_shape import WholeAnswer
from adapters.detect import Replies, listed_models
from adapters.draft import Draft, Flag
from adapters.engine import OpenAIEngine, mode_where_streams_lose, path_of
from adapters.openai_shape import Shape
from adapters.places import Place, Source
from adapters.plan import Plan, Strip
from adapters.prompts import ReadIds
from adapters.raw import text
from adapters.read import read_answer
from adapters.request import CanonicalRequest
from adapters.schema import Capture, Completion
from adapters.server import Server
from adapters.token_ids import TokenIds

SHAPE: Final = Shape(
    sources=(
        Source(
            Place("choice", ("logprobs", "content"), column="id"),
            (Place("choice", ("logprobs", "content"), column="logprob"),),
        ),
    ),
)
_TEXT_ALONE: Final = Shape()

_LOGPROBS: Final = Flag("logprobs", "logprobs", Strip(choice=frozenset({"logprobs"})))
_NONE_IN_STREAM: Final = "mlx-lm gives no token ids in streams"
_NONE_IN_COMPLETIONS: Final = "mlx-lm gives no token ids with completions, only with chats"
_OTHER_TOKENS: Final = "asked for top_logprobs, mlx-lm names the likeliest tokens in place of the sampled ones"


class MlxLm(OpenAIEngine):
    """Unknown fields are ignored."""

    engine: ClassVar[str] = "mlx_lm"
    shape: ClassVar[Shape] = SHAPE
    since = (((0,), frozenset({"logprobs", "usage"})),)
    assumed = frozenset({"logprobs", "usage"})
    asks: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "logprobs": ("logprobs",),
        "usage": ("stream_options", "include_usage"),
    }

    def recognise(self, replies: Replies) -> Server | None:
        models, health = listed_models(replies), replies.get("/health")
        ownerless = bool(models) and all(model.owned_by is None for model in models)
        # llama.cpp's health says the same, but its models have an owner.
        if not ownerless or health is None or text(health.fields().get("status")) != "ok":
            return None
        return self.heard(replies)

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        draft = Draft(request, server)
        draft.hide_reasoning()
        draft.translate_token_ids_flag()
        without = _without_ids(request)
        # To wait for a whole answer that has no ids either would be for nothing.
        mode, reason = mode_where_streams_lose(request, "stream" if without else capture, _NONE_IN_STREAM)
        if mode == "streamed":
            without = without or _NONE_IN_STREAM
        if without is None:
            draft.ask(_LOGPROBS)
            draft.logprobs_asked = True
        if mode == "streamed":
            draft.ask_usage()
        return draft.plan(mode, path_of(request), reason, without)

    def read(self, answer: WholeAnswer, plan: Plan, prompt_ids: ReadIds = TokenIds.from_json) -> Completion:
        if plan.request.top_logprobs:
            return read_answer(answer, plan, _TEXT_ALONE)
        return super().read(answer, plan, prompt_ids)


def _without_ids(request: CanonicalRequest) -> str | None:
    """Why even a whole answer has no ids, if so."""
    if request.endpoint == "completions":
        return _NONE_IN_COMPLETIONS
    return _OTHER_TOKENS if request.top_logprobs else None
