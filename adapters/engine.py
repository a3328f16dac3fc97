"""An engine of the OpenAI shape, described by data: capabilities by version, flags, places."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from adapters.answer_shape import Chunk, WholeAnswer
from adapters.control import Action, Command, EnginePause, NotOffered
from adapters.detect import Configured, Question, Replies, Reply, listed_models
from adapters.draft import Draft
from adapters.errors import read_error
from adapters.openai_shape import Shape, open_answer, open_chunk
from adapters.plan import Plan
from adapters.prompts import ReadIds
from adapters.raw import integer, join_object, open_object, text
from adapters.read import read_answer
from adapters.request import CanonicalRequest
from adapters.schema import Capture, Completion, LogprobsMode, PlanMode
from adapters.server import Known, Server
from adapters.token_ids import TokenIds

Version = tuple[int, ...]

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
PROCESSED_LOGPROBS: Final = "processed_logprobs"
"""The feature of a server that gives logprobs after temperature and penalties, where its engine's default is before."""

_RENDERED: Final = ("model", "messages", "tools", "tool_choice", "chat_template_kwargs", "reasoning_effort")
"""What a chat's prompt is made of."""
_NUMBERS: Final = re.compile(r"v?(\d+(?:\.\d+)+)")
_UNKNOWN_FIELD: Final = re.compile(
    r"(?i)extra.(inputs|fields)|unsupported parameter|unknown (field|parameter)|unrecognized"
)


def parse_version(version: str | None) -> Version | None:
    """The numbers that a version begins with; None for what has none, and for builds that know no release."""
    found = _NUMBERS.match(version or "")
    if found is None:
        return None
    numbers = tuple(int(number) for number in found[1].split("."))
    # What a build without tags calls itself: `0.1.dev1+g0a1b2c3`.
    return None if numbers < (0, 2) and ".dev" in (version or "") else numbers


def has_number(version: str) -> bool:
    """Whether this is a release's version, or that of a build on the way to one."""
    return _NUMBERS.match(version) is not None


def mode_where_streams_lose(request: CanonicalRequest, capture: Capture, why: str) -> tuple[PlanMode, str | None]:
    """The mode for an engine whose whole answers tell ids that its streams lose, with the reason for buffering."""
    if not request.stream:
        return "whole", None
    return ("streamed", None) if capture == "stream" else ("buffered", why)


def path_of(request: CanonicalRequest) -> str:
    """Where an engine of this shape takes such a request."""
    return CHAT if request.endpoint == "chat" else COMPLETIONS


class OpenAIEngine:
    """The part of an adapter that data describes. An engine's own file gives the data, and mostly its `plan`."""

    engine: ClassVar[str]
    shape: ClassVar[Shape]
    since: ClassVar[Sequence[tuple[Version, frozenset[str]]]]
    """The capability table: from this version on, these features."""
    assumed: ClassVar[frozenset[str]]
    """The features of a server whose version is not known."""
    asks: ClassVar[Mapping[str, tuple[str, ...]]]
    """By feature, the request fields that are sent for its sake: what a refusal would name."""
    logprobs_mode: ClassVar[LogprobsMode] = "raw"
    configurable: ClassVar[frozenset[str]] = frozenset()
    """Features that no version has of itself: of a fork, or how this one server was started."""
    variants: ClassVar[frozenset[str]] = frozenset()
    """The forks, patches or kinds of worker that the capability table knows."""
    owners: ClassVar[frozenset[str]] = frozenset()
    """What stands under `owned_by` where this engine lists its models."""
    health_at: ClassVar[str] = "/health"
    # vLLM's router reads the one, SGLang's the other; either may stand before a server that is recognised as its own.
    affinity: ClassVar[tuple[str, ...]] = ("x-session-id", "x-smg-routing-key")
    counts_at: ClassVar[str | None] = None
    """Where a server of this engine counts the tokens of a chat; null where it does not."""
    no_ids: ClassVar[str | None] = None
    """Why an engine without a `plan` of its own tells no ids, where there is more to say than that."""

    def server(
        self,
        version: str | None = None,
        variant: str | None = None,
        *,
        features: Collection[str] = (),
        without: Collection[str] = (),
        models: Collection[str] = (),
        known: Known = "assumed",
        context: int | None = None,
    ) -> Server:
        can = (self.features_of(version, variant) | frozenset(features)) - frozenset(without)
        return Server(self.engine, version, variant, can, tuple(models), known, context)

    @property
    def words(self) -> frozenset[str]:
        table = (features for _, features in self.since)
        return frozenset({PROCESSED_LOGPROBS}).union(self.assumed, self.asks, self.configurable, *table)

    def features_of(self, version: str | None, variant: str | None) -> frozenset[str]:
        number = parse_version(version)
        if number is None:
            return self.assumed
        return frozenset().union(*(features for first, features in self.since if number >= first))

    def plan(self, request: CanonicalRequest, server: Server, capture: Capture) -> Plan:
        """For an engine that gives no ids for the asking: nothing is asked for but usage."""
        draft = Draft(request, server)
        draft.hide_reasoning()
        draft.translate_token_ids_flag()
        if request.stream:
            draft.ask_usage()
        return draft.plan("streamed" if request.stream else "whole", path_of(request), without_ids=self.no_ids)

    def open_chunk(self, data: bytes, plan: Plan) -> Chunk:
        return open_chunk(data, plan.request.expected_choices)

    def open_answer(self, body: bytes, plan: Plan) -> WholeAnswer:
        return open_answer(body, plan.request.expected_choices, self.shape.tables)

    def read(self, answer: WholeAnswer, plan: Plan, prompt_ids: ReadIds = TokenIds.from_json) -> Completion:
        mode = "processed" if PROCESSED_LOGPROBS in plan.server.features else self.logprobs_mode
        return read_answer(answer, plan, self.shape, mode, prompt_ids)

    def refused(self, plan: Plan, status: int, body: bytes) -> Server | None:
        if status not in (400, 422):
            return None
        error = read_error(status, body)
        words = f"{error.param or ''} {error.message}"
        ours = self._added_for(plan)
        named = {
            feature
            for feature, fields in ours.items()
            if any(re.search(rf"(?<![\w-]){re.escape(field)}(?![\w-])", words) for field in fields)
        }
        if not named and _UNKNOWN_FIELD.search(words) and not any(name in words for name in plan.request.fields):
            named = set(ours)
        if not named:
            return None
        return replace(plan.server, features=plan.server.features - named, known="probed")

    def _added_for(self, plan: Plan) -> dict[str, list[str]]:
        """By feature, the names that this plan sends and the agent did not, or not so."""
        sent, agents = open_object(plan.body), plan.request.fields
        added = {}
        for feature, fields in self.asks.items():
            changed = [name for name in fields if name in sent and sent[name] != agents.get(name)]
            if changed and feature in plan.server.features:
                added[feature] = [*changed, *(name for name in fields if name not in sent and name not in agents)]
        return added

    def control(self, action: Action, mode: EnginePause, server: Server) -> Command:
        raise NotOffered(f"{self.engine} has no way to {action} that this gateway knows")

    def recognise(self, replies: Replies) -> Server | None:
        models = listed_models(replies)
        if not any(model.owned_by in self.owners for model in models):
            return None
        return self.heard(replies)

    def heard(self, replies: Replies, *, known: Known = "detected") -> Server:
        """The server that these replies are of, once they are known to be of this engine."""
        listed = listed_models(replies)
        return self.server(
            self.version_told(replies),
            models=[model.id for model in listed],
            known=known,
            context=max((model.context or 0 for model in listed), default=0) or None,
        )

    def version_told(self, replies: Replies) -> str | None:
        reply = replies.get("/version")
        return None if reply is None else text(reply.fields().get("version"))

    def configured(self, configured: Configured, heard: Server | None) -> Server:
        if heard is None:
            heard = self.server()
        version, variant = configured.version or heard.version, configured.variant or heard.variant
        table = self.features_of(heard.version, heard.variant)
        # What was heard beyond the table, or missed of it, holds in whatever version this is said to be.
        server = self.server(
            version,
            variant,
            features=(heard.features - table) | configured.features,
            without=(table - heard.features) - configured.features,
            models=configured.models or heard.models,
            known=heard.known,
            context=heard.context,
        )
        server = replace(server, weight_version=heard.weight_version)
        told = configured.version or configured.variant or configured.features
        return replace(server, known="configured") if told else server

    def counting(self, request: CanonicalRequest) -> Question | None:
        if self.counts_at is None or request.endpoint != "chat":
            return None
        rendered = {name: request.fields[name] for name in _RENDERED if name in request.fields}
        return Question(self.counts_at, join_object(rendered))

    def counted(self, reply: Reply) -> int | None:
        return integer(reply.fields().get("count"))

    def probes(self, server: Server) -> tuple[Question, ...]:
        return ()

    def corrected(self, server: Server, replies: Replies) -> Server:
        return server
