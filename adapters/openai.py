"""Any other server of the OpenAI shape: text and usage, and no ids that could be asked for."""

from __future__ import annotations

from typing import ClassVar

from adapters.detect import Replies
from adapters.draft import Draft
from adapters.engine import CHAT, COMPLETIONS, OpenAIEngine
from adapters.openai_shape import Shape
from adapters.plan import Plan
from adapters.request import CanonicalRequest
from adapters.schema import Capture
from adapters.server import Server


class OpenAI(OpenAIEngine):
    """Nothing is sent that OpenAI's own API does not have; logprobs are asked for only where the agent asks."""

    engine: ClassVar[str] = "openai"
    shape: ClassVar[Shape] = Shape()
    since = (((0,), frozenset({"logprobs", "usage"})),)
    assumed = frozenset({"logprobs", "usage"})
    asks: ClassVar = {"usage": ("stream_options", "include_usage")}

    def recognise(self, replies: Replies) -> Server:
        """Whatever no other engine takes for its own: what it is called does not matter, for nothing is asked of it."""
        return self.heard(replies, known="assumed")

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        draft = Draft(request, server)
        draft.hide_reasoning()
        draft.translate_token_ids_flag()
        if request.stream:
            draft.ask_usage()
        return draft.plan(
            "streamed" if request.stream else "whole", CHAT if request.endpoint == "chat" else COMPLETIONS
        )
