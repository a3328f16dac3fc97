"""A plan in the making: the agent's fields, what we add to them, and what of the answer that brings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from msgspec import Raw

from adapters.openai_shape import REASONING
from adapters.plan import NOTHING, Plan, Strip
from adapters.raw import (
    FALSE,
    NULL,
    TRUE,
    Fields,
    NotJSON,
    integer,
    join_array,
    join_object,
    open_array,
    open_object,
    told,
)
from adapters.request import CanonicalRequest
from adapters.schema import PlanMode
from adapters.server import Server

_NO_LOGPROBS: Final = Strip(nulled=frozenset({"logprobs"}))


@dataclass(frozen=True, slots=True)
class Flag:
    """A field of the request that makes an engine tell more, and where it tells it."""

    feature: str
    """The server's feature without which the flag is not sent."""
    name: str
    brings: Strip
    value: bytes = b"true"


class Draft:
    """Begins with the agent's request, cleaned of what servers refuse; ends as a Plan."""

    def __init__(self, request: CanonicalRequest, server: Server) -> None:
        self.request = request
        self.server = server
        self.fields: Fields = dict(request.fields)
        self.strip = NOTHING
        self.logprobs_asked = request.logprobs
        self.inject_token_ids = False
        self._tidy()

    def has(self, feature: str) -> bool:
        return feature in self.server.features

    def set(self, name: str, value: bytes) -> None:
        self.fields[name] = Raw(value)

    def drop(self, name: str) -> None:
        self.fields.pop(name, None)

    def ask(self, flag: Flag) -> None:
        """Sets the flag where the server knows it. What it brings is the agent's only if the agent had set it so."""
        if not self.has(flag.feature) or self.fields.get(flag.name) == Raw(flag.value):
            return
        self.set(flag.name, flag.value)
        self.strip |= flag.brings

    def ask_in_list(self, flag: Flag, key: str) -> None:
        """Adds `flag.value` (a JSON string) to the list at `flag.name`.`key`, beside what the agent asked for there."""
        if not self.has(flag.feature):
            return
        outer, items = _list_in(self.fields.get(flag.name), key)
        wanted = Raw(flag.value)
        if wanted in items:
            return
        outer[key] = Raw(join_array([*items, wanted]))
        self.set(flag.name, join_object(outer))
        self.strip |= flag.brings

    def ask_usage(self) -> None:
        """The engine's own count, for a stream: beside what the agent asked for in `stream_options`."""
        if not self.has("usage"):
            return
        try:
            options = open_object(raw) if told(raw := self.fields.get("stream_options")) else {}
        except NotJSON:
            return  # The server's to refuse, in its own words.
        options["include_usage"] = TRUE
        self.set("stream_options", join_object(options))
        if not self.request.include_usage:
            self.strip |= Strip(usage=True)

    def ask_chat_logprobs(self, top_logprobs: int | None) -> None:
        """Logprobs of the sampled tokens. `top_logprobs` is what to send where the agent wants none; null: nothing.

        A null or a 0 from the agent counts as nothing said: for `top_logprobs: null` vLLM ≤ 0.25 gives no logprobs.
        """
        if not self.has("logprobs"):
            return
        if self.request.logprobs:
            if self.request.top_logprobs:
                return
            if top_logprobs:
                self.strip |= Strip(top_logprobs=True)
        else:
            self.strip |= _NO_LOGPROBS
            self.set("logprobs", b"true")
        if top_logprobs is None:
            self.drop("top_logprobs")
        else:
            self.set("top_logprobs", str(top_logprobs).encode())
        self.logprobs_asked = True

    def ask_completion_logprobs(self) -> None:
        """Legacy completions: a number, of which 0 means the sampled tokens' alone."""
        if not self.has("logprobs") or self.request.logprobs:
            return
        self.strip |= _NO_LOGPROBS
        self.set("logprobs", b"0")
        self.logprobs_asked = True

    def hide_reasoning(self) -> None:
        """`include_reasoning: false` blanks the ids of vLLM ≥ 0.26, so it is done here and not asked of the engine."""
        if self.fields.get("include_reasoning") == FALSE:
            self.drop("include_reasoning")
            self.strip |= Strip(delta=frozenset(REASONING))

    def leave_out_unreachable_limits(self) -> None:
        """For chats at engines that, told no limit, answer up to the end of their context.

        Harnesses send the limit of another model (64,000 tokens) to a server whose whole context is shorter. It gives
        a 400 for that; «as long as it may be» is what was meant.
        """
        context = self.server.context
        if context is None or self.request.keep_limits or self.request.endpoint != "chat":
            return  # A legacy completion without a limit ends after 16 tokens.
        for name in ("max_tokens", "max_completion_tokens"):
            limit = integer(self.fields.get(name))
            if limit is not None and limit > context:
                self.drop(name)

    def translate_token_ids_flag(self) -> None:
        """For engines whose ids have other names: the agent's `return_token_ids` is answered here, at vLLM's places."""
        self.drop("return_token_ids")
        self.inject_token_ids = self.request.return_token_ids

    def plan(
        self,
        mode: PlanMode,
        path: str,
        reason: str | None = None,
        without_ids: str | None = None,
        *,
        folded: bool = False,
    ) -> Plan:
        """`folded`: the backend streams though the agent does not, and the chunks become the agent's whole answer."""
        if folded:
            self.set("stream", b"true")
            self.set("stream_options", b'{"include_usage":true}')
        elif mode != "streamed":
            # Servers refuse (or worse, heed) stream options on a request that is not streamed.
            self.drop("stream_options")
        if mode == "buffered":
            self.drop("stream")
        return Plan(
            mode=mode,
            path=path,
            body=join_object(self.fields),
            server=self.server,
            request=self.request,
            strip=self.strip,
            logprobs_asked=self.logprobs_asked,
            inject_token_ids=self.inject_token_ids,
            reason=reason,
            without_ids=without_ids,
            left_out=self.request.fields.keys() - self.fields.keys(),
        )

    def _tidy(self) -> None:
        """What harnesses send and servers refuse, though it means nothing."""
        fields = self.fields
        if _is_empty_list(fields.get("tools")) or fields.get("tools") == NULL:
            # An agent without tools sends `[]`; OpenAI and vLLM ask for at least one.
            self.drop("tools")
        if "tools" not in fields and "functions" not in fields:
            # «When using `tool_choice`, `tools` must be set»: a 400 for saying that nothing may be called.
            self.drop("tool_choice")
            self.drop("parallel_tool_calls")


def _is_empty_list(raw: Raw | None) -> bool:
    return raw is not None and not bytes(raw).strip(b"[] \t\r\n")


def _list_in(raw: Raw | None, key: str) -> tuple[Fields, Iterable[Raw]]:
    """The object, opened, and the items of its list. What is neither is replaced: the server would refuse it."""
    try:
        outer = open_object(raw) if told(raw) else {}
        items = open_array(inner) if told(inner := outer.get(key)) else []
    except NotJSON:
        return {}, []
    return outer, items
