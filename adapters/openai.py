"""Any other server of the OpenAI shape: text and usage, and no ids that could be asked for."""

from __future__ import annotations

from typing import ClassVar

from adapters.detect import Replies
from adapters.engine import OpenAIEngine
from adapters.openai_shape import Shape
from adapters.server import Server


class OpenAI(OpenAIEngine):
    """Nothing is sent that OpenAI's own API does not have; logprobs are asked for only where the agent asks."""

    engine: ClassVar[str] = "openai"
    shape: ClassVar[Shape] = Shape()
    since = (((0,), frozenset({"logprobs", "usage"})),)
    assumed = frozenset({"logprobs", "usage"})
    health_at: ClassVar[str] = "/v1/models"
    asks: ClassVar = {"usage": ("stream_options", "include_usage")}

    def recognise(self, replies: Replies) -> Server:
        """Whatever no other engine takes for its own: what it is called does not matter, for nothing is asked of it."""
        return self.heard(replies, known="assumed")
