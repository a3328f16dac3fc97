"""vLLM as it answers on the wire, 0.10.1 to 0.33 (read from its wheels, and recorded from 0.32.0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from adapters.scripts.asked import Asked, BadRequest
from adapters.scripts.script import Answer, Frame, Stamp, streamed, told_whole, version_of, whole
from adapters.scripts.speech import Speech
from adapters.scripts.vllm_chat import ChatCall
from adapters.scripts.vllm_completions import CompletionsCall
from adapters.scripts.vllm_places import Places

_STREAM = "text/event-stream; charset=utf-8"


class _Flags(msgspec.Struct, frozen=True):
    """The request fields that only this engine knows."""

    return_token_ids: bool | None = None
    return_tokens_as_token_ids: bool | None = None
    return_weight_versions: bool | None = None
    include_reasoning: bool = True


@dataclass(frozen=True, slots=True)
class VllmScript:
    engine: ClassVar[str] = "vllm"
    tells_ids: ClassVar[bool] = True
    counts_at: ClassVar[str | None] = "/tokenize"
    model: str
    version: str = "0.33.0"
    tokens_per_chunk: int = 1
    weight_version: str = "default"

    def answer(self, asked: Asked, speeches: Sequence[Speech], stamp: Stamp) -> Answer:
        refused = self._refused(asked)
        if refused is not None:
            return refused
        flags = msgspec.json.decode(asked.body, type=_Flags)
        places = self._places(asked, flags, parsed=any(map(_parsed, speeches)))
        chat = asked.endpoint == "chat"
        call = (ChatCall if chat else CompletionsCall)(asked, tuple(speeches), places, stamp, self.model)
        if asked.stream:
            return streamed(call.chunks(self.tokens_per_chunk), content_type=_STREAM)
        return whole(call.whole(), told=told_whole(speeches) if places.ids else ())

    def unreadable(self, error: BadRequest) -> Answer:
        return _error(400, str(error), "Bad Request", "body")

    def page(self, path: str) -> Answer | None:
        match path:
            case "/v1/models":
                card = {"id": self.model, "object": "model", "owned_by": "vllm", "max_model_len": 32768}
                return whole({"object": "list", "data": [card]})
            case "/version":
                return whole({"version": self.version})
            case "/health" | "/ping":
                return Answer(200, (Frame(b""),))
        return None

    def missing(self, method: str, path: str) -> Answer:
        return whole({"detail": "Not Found"}, status=404)

    def since(self, version: str) -> bool:
        return version_of(self.version) >= version_of(version)

    def _refused(self, asked: Asked) -> Answer | None:
        if asked.model is not None and asked.model != self.model:
            message = f"The model `{asked.model}` does not exist. Valid aliases: {self.model}."
            return _error(404, message, "NotFoundError", "model")
        if asked.max_tokens is not None and asked.max_tokens < 1:
            message = f"max_tokens must be at least 1, got {asked.max_tokens}."
            return _error(400, message, "BadRequestError", "max_tokens")
        return None

    def _places(self, asked: Asked, flags: _Flags, *, parsed: bool) -> Places:
        parsed = parsed and asked.endpoint == "chat"
        # From 0.26–0.28 on, `include_reasoning: false` blanks the ids wherever a parser is at work.
        blanked = self.since("0.27") and not flags.include_reasoning and parsed
        knows_ids = self.since("0.10.2")
        return Places(
            knows_ids=knows_ids,
            ids=knows_ids and bool(flags.return_token_ids) and not blanked,
            logprobs=self._logprobs(asked),
            tokens_as_ids=bool(flags.return_tokens_as_token_ids),
            prompt_text=self.since("0.23"),
            routed_experts=self.since("0.23"),
            knows_weight_versions=self.since("0.33"),
            weight_version=self.weight_version if flags.return_weight_versions else None,
            reasoning=self._reasoning_fields if flags.include_reasoning else (),
            all_reasoning=self._reasoning_fields,
            # 0.10.2 to 0.12 skipped a step whose text the parser kept, and lost its ids (issue 27482).
            swallows=parsed and not self.since("0.13"),
            fingerprint=f"vllm-{self.version}-scripted",
        )

    def _logprobs(self, asked: Asked) -> bool:
        """Up to 0.25 an explicit null of `top_logprobs` switched a chat's logprobs off; its absence did not."""
        null = bytes(asked.fields.get("top_logprobs", b"0")) == b"null"
        return asked.logprobs and not (null and asked.endpoint == "chat" and not self.since("0.26"))

    @property
    def _reasoning_fields(self) -> tuple[str, ...]:
        if not self.since("0.12"):
            return ("reasoning_content",)
        return ("reasoning",) if self.since("0.16") else ("reasoning", "reasoning_content")


def _parsed(speech: Speech) -> bool:
    """Whether a parser has anything to do on it."""
    return any(token.part != "content" for token in speech.tokens[:-1])


def _error(status: int, message: str, kind: str, param: str | None) -> Answer:
    return whole({"error": {"message": message, "type": kind, "param": param, "code": status}}, status=status)
