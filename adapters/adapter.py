"""What the rest of the program knows of an engine."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from adapters.answer_shape import Chunk, WholeAnswer
from adapters.control import Action, Command, EnginePause
from adapters.detect import Configured, Question, Replies, Reply
from adapters.openai_shape import Shape
from adapters.plan import Plan
from adapters.prompts import ReadIds
from adapters.request import CanonicalRequest
from adapters.schema import Capture, Completion
from adapters.server import Known, Server
from adapters.token_ids import TokenIds


class Adapter(Protocol):
    """One engine in all its versions and variants. Pure: bytes and values in, values out."""

    @property
    def engine(self) -> str: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def health_at(self) -> str:
        """Where a server answers cheaply that it lives."""
        ...

    @property
    def affinity(self) -> tuple[str, ...]:
        """The headers by which routers for this engine keep what belongs together at one server."""
        ...

    @property
    def words(self) -> frozenset[str]:
        """All features that a server of this engine may have, the configuration's own words among them."""
        ...

    @property
    def variants(self) -> frozenset[str]:
        """All that a server of this engine may be said to be, beside the engine itself."""
        ...

    def server(
        self,
        version: str | None = None,
        variant: str | None = None,
        *,
        features: Collection[str] = (),
        without: Collection[str] = (),
        models: Collection[str] = (),
        known: Known = "assumed",
    ) -> Server:
        """The server as the capability table knows it by version and variant, with what is known of this one."""
        ...

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        """What to send, so that the answer tells the sampled ids; and what of the answer is not the agent's."""
        ...

    def open_chunk(self, data: bytes, plan: Plan) -> Chunk:
        """One event's data. Raises NotJSON."""
        ...

    def open_answer(self, body: bytes, plan: Plan) -> WholeAnswer:
        """A whole body. Raises NotJSON."""
        ...

    def read(self, answer: WholeAnswer, plan: Plan, prompt_ids: ReadIds = TokenIds.from_json) -> Completion:
        """One reading for folded streams and whole bodies. Never raises for what an engine says.

        `prompt_ids` reads the prompt's.
        """
        ...

    def refused(self, plan: Plan, status: int, body: bytes) -> Server | None:
        """The server without the feature whose flag it refused, to plan with once more; None if we did not cause it."""
        ...

    def counting(self, request: CanonicalRequest) -> Question | None:
        """What to ask a server for the length of a chat's prompt; None of one that does not count."""
        ...

    def counted(self, reply: Reply) -> int | None:
        """The tokens that such a reply tells; None where it tells none."""
        ...

    def control(self, action: Action, mode: EnginePause, server: Server) -> Command:
        """What to send a server so that it pauses (in this mode), goes on or empties its caches. Raises NotOffered."""
        ...

    def recognise(self, replies: Replies) -> Server | None:
        """The server, where these replies to the plain questions are this engine's."""
        ...

    def configured(self, configured: Configured, heard: Server | None) -> Server:
        """The server with the configuration's word above what was heard of it."""
        ...

    def probes(self, server: Server) -> tuple[Question, ...]:
        """What to ask a model for, where version and variant do not decide what it can; else nothing."""
        ...

    def corrected(self, server: Server, replies: Replies) -> Server:
        """The server as the replies to its probes show it. Never raises for what a server says."""
        ...
