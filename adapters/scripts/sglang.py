"""SGLang as it answers on the wire, 0.5.9 to 0.5.23, with the agentcore patch and LLM360's fork.

Read from its wheels, and recorded from 0.5.9 with the patch and from 0.5.23.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from adapters.scripts.asked import Asked, BadRequest
from adapters.scripts.script import Answer, Frame, Json, Stamp, streamed, told_whole, version_of, whole
from adapters.scripts.sglang_chat import ChatCall
from adapters.scripts.sglang_completions import CompletionsCall
from adapters.scripts.sglang_places import Places
from adapters.scripts.speech import Speech

_STREAM = "text/event-stream; charset=utf-8"
_REFUSED = "{flag} is not supported with streaming{where}. Please set stream=false when using {flag}=true."


class _Flags(msgspec.Struct, frozen=True):
    """The request fields that only this family knows."""

    return_token_ids: bool = False
    return_prompt_token_ids: bool = False
    return_meta_info: bool = False
    return_input_ids_in_sglext: bool = False
    return_output_ids_in_sglext: bool = False
    return_completion_token_ids: bool = False


@dataclass(frozen=True, slots=True)
class SglangScript:
    engine: ClassVar[str] = "sglang"
    tells_ids: ClassVar[bool] = True
    counts_at: ClassVar[str | None] = "/v1/tokenize"
    model: str
    version: str = "0.5.23"
    variant: str | None = None
    """`agentcore` (the patch: ids always), `llm360` (the fork: a flag of its own), null for upstream."""
    tokens_per_chunk: int = 1
    weight_version: str = "default"

    def answer(self, asked: Asked, speeches: Sequence[Speech], stamp: Stamp) -> Answer:
        flags = msgspec.json.decode(asked.body, type=_Flags)
        refused = self._refused(asked, flags)
        if refused is not None:
            return refused
        # It serves whatever model it is asked for, and calls it by that name.
        model = asked.model or "default"
        chat = asked.endpoint == "chat"
        places = self._chat_places(asked, flags) if chat else self._completions_places(flags)
        call = (ChatCall if chat else CompletionsCall)(asked, tuple(speeches), places, stamp, model)
        if asked.stream:
            return streamed(call.chunks(self.tokens_per_chunk), content_type=_STREAM)
        return whole(call.whole(), told=told_whole(speeches) if places.tells_ids else ())

    def unreadable(self, error: BadRequest) -> Answer:
        return _error(400, str(error), "BadRequestError")

    def page(self, path: str) -> Answer | None:
        match path:
            case "/v1/models":
                card = {"id": self.model, "object": "model", "created": 0, "owned_by": "sglang"}
                more = {"root": self.model, "parent": None, "max_model_len": 32768}
                return whole({"object": "list", "data": [card | more]})
            case "/health" | "/health_generate":
                return Answer(200, (Frame(b""),))
            case "/server_info" | "/get_server_info":
                parsers = {"tool_call_parser": "qwen25", "reasoning_parser": "qwen3"}
                modes = {"incremental_streaming_output": False, "internal_states": [{}]}
                return whole({"model_path": self.model, "version": self.version} | parsers | modes)
            case "/model_info" | "/get_model_info":
                return whole({"model_path": self.model, "weight_version": self.weight_version})
        return None

    def missing(self, method: str, path: str) -> Answer:
        return whole({"detail": "Not Found"}, status=404)

    def since(self, version: str) -> bool:
        return version_of(self.version) >= version_of(version)

    def _refused(self, asked: Asked, flags: _Flags) -> Answer | None:
        """The 400 of a chat stream with a flag that it can't serve there. Unknown flags are ignored."""
        if asked.endpoint != "chat" or not asked.stream:
            return None
        fork = self.variant == "llm360"
        if (fork or self.since("0.5.13")) and flags.return_prompt_token_ids:
            return _stream_refused("return_prompt_token_ids")
        if fork and flags.return_completion_token_ids:
            return _stream_refused("return_completion_token_ids")
        if self.since("0.5.17") and flags.return_token_ids:
            return _stream_refused("return_token_ids", " on /v1/chat/completions")
        if (fork or self.since("0.5.13")) and flags.return_meta_info:
            return _stream_refused("return_meta_info")
        return None

    def _chat_places(self, asked: Asked, flags: _Flags) -> Places:
        fork, patched = self.variant == "llm360", self.variant == "agentcore"
        asks_ids = flags.return_token_ids and self.since("0.5.17") and not fork
        sglext = self.since("0.5.20")
        ids: str | None = None
        if patched:
            ids = "token_ids"
        elif fork and flags.return_completion_token_ids:
            ids = "completion_token_ids"
        elif asks_ids:
            # 0.5.17 alone calls this token_ids.
            ids = "response_token_ids" if self.since("0.5.18") else "token_ids"
        asks_prompt = flags.return_prompt_token_ids and (fork or self.since("0.5.13"))
        return Places(
            ids=ids,
            prompt_on_choice=not patched and (asks_prompt or asks_ids),
            prompt_on_root=patched,
            meta_info=flags.return_meta_info and (fork or self.since("0.5.13")),
            sglext_input=sglext and _wants(flags.return_input_ids_in_sglext, asked, "input"),
            sglext_output=sglext and _wants(flags.return_output_ids_in_sglext, asked, "output"),
            weight_version=self.weight_version,
            weight_spans=self.since("0.5.19"),
            null_fields=not self.since("0.5.13"),
            parser_logprobs=self.since("0.5.15"),
        )

    def _completions_places(self, flags: _Flags) -> Places:
        """All flags but one are ignored here; neither the patch nor the fork reaches this route."""
        asks_ids = flags.return_token_ids and self.since("0.5.17") and self.variant is None
        return Places(
            ids="token_ids" if asks_ids else None,
            prompt_on_choice=asks_ids,
            weight_version=self.weight_version,
            weight_spans=self.since("0.5.19"),
            null_fields=not self.since("0.5.13"),
        )


def _wants(flag: bool, asked: Asked, side: str) -> bool:
    return flag or asked.headers.get(f"x-sglext-return-{side}-ids") == "1"


def _stream_refused(flag: str, where: str = "") -> Answer:
    return _error(400, _REFUSED.format(flag=flag, where=where), "BadRequest")


def _error(status: int, message: str, kind: str) -> Answer:
    body: Json = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
    return whole(body, status=status)
