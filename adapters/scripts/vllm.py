"""vLLM as it answers on the wire, 0.10.1 to 0.33 (read from its wheels, and recorded from 0.32.0)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from adapters.scripts.asked import Asked, BadRequest
from adapters.scripts.script import (
    Answer,
    Frame,
    Json,
    Stamp,
    Step,
    Told,
    steps,
    streamed,
    told,
    told_whole,
    version_of,
    whole,
)
from adapters.scripts.shapes import (
    alternatives,
    completion_logprobs,
    counts,
    joined,
    thought_tokens,
    written,
)
from adapters.scripts.speech import Speech, Token
from adapters.scripts.vocabulary import HALT

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
    model: str
    version: str = "0.33.0"
    tokens_per_chunk: int = 1
    weight_version: str = "default"

    def answer(self, asked: Asked, speeches: Sequence[Speech], stamp: Stamp) -> Answer:
        refused = self._refused(asked)
        if refused is not None:
            return refused
        call = _Call(self, asked, msgspec.json.decode(asked.body, type=_Flags), tuple(speeches), stamp)
        if asked.stream:
            return streamed(call.chunks(), content_type=_STREAM)
        return whole(call.whole(), told=told_whole(speeches) if call.gives_ids else ())

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


def _stop_reason(speech: Speech) -> str | int | None:
    """The stop string, or the id of an end token that is not the model's first one."""
    return HALT if speech.eos == HALT else speech.stop


def _error(status: int, message: str, kind: str, param: str | None) -> Answer:
    return whole({"error": {"message": message, "type": kind, "param": param, "code": status}}, status=status)


@dataclass(frozen=True, slots=True)
class _Call:
    """One call in the course of being answered."""

    script: VllmScript
    asked: Asked
    flags: _Flags
    speeches: tuple[Speech, ...]
    stamp: Stamp

    @property
    def gives_ids(self) -> bool:
        # From 0.26–0.28 on, `include_reasoning: false` blanks the ids wherever a parser is at work.
        blanked = self.script.since("0.27") and not self.flags.include_reasoning and self._parsed
        return self.script.since("0.10.2") and bool(self.flags.return_token_ids) and not blanked

    @property
    def _parsed(self) -> bool:
        return self.asked.endpoint == "chat" and any(
            token.part != "content" and token is not speech.tokens[-1]
            for speech in self.speeches
            for token in speech.tokens
        )

    @property
    def _gives_logprobs(self) -> bool:
        if self.asked.endpoint == "chat" and not self.script.since("0.26"):
            # An explicit null of `top_logprobs` switched logprobs off; the field's absence did not.
            null = bytes(self.asked.fields.get("top_logprobs", b"0")) == b"null"
            return self.asked.logprobs and not null
        return self.asked.logprobs

    def whole(self) -> Json:
        chat = self.asked.endpoint == "chat"
        choices = [self._choice(index, speech) for index, speech in enumerate(self.speeches)]
        body: dict[str, object] = {
            **self._head("chat.completion" if chat else "text_completion"),
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": self._fingerprint,
            "usage": self._usage(nulls=True),
        }
        if chat:
            body |= {"prompt_logprobs": None, "prompt_token_ids": self._prompt_ids(0)}
            if self.script.since("0.23"):
                body["prompt_text"] = None
        return body | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}

    def chunks(self) -> Iterator[tuple[Json, Told]]:
        if self.asked.endpoint == "chat":
            for index in range(len(self.speeches)):
                yield self._role_chunk(index), ()
        for step in steps(self.speeches, self.script.tokens_per_chunk):
            if self._swallowed(step.tokens) and not step.last:
                continue
            choice = self._streamed_choice(step)
            shown = told(step.index, step.tokens) if self.gives_ids else ()
            yield self._head(self._chunk_object) | {"choices": [choice]}, shown
        if self.asked.include_usage:
            usage = {
                "choices": [],
                "usage": self._usage(nulls=False),
                "system_fingerprint": self._fingerprint,
            }
            yield self._head(self._chunk_object) | usage, ()

    def _swallowed(self, tokens: Sequence[Token]) -> bool:
        """0.10.2 to 0.12 skipped a step whose text the parser kept, and lost its ids (issue 27482)."""
        silent = not any(token.text for token in tokens)
        return silent and self._parsed and not self.script.since("0.13")

    @property
    def _chunk_object(self) -> str:
        return "chat.completion.chunk" if self.asked.endpoint == "chat" else "text_completion"

    @property
    def _fingerprint(self) -> str:
        return f"vllm-{self.script.version}-scripted"

    def _head(self, kind: str) -> dict[str, object]:
        prefix = "chatcmpl" if self.asked.endpoint == "chat" else "cmpl"
        return {
            "id": f"{prefix}-{self.stamp.id}",
            "object": kind,
            "created": self.stamp.created,
            "model": self.script.model,
        }

    def _usage(self, *, nulls: bool) -> Json:
        prompt, completion = counts(self.asked, self.speeches)
        usage: dict[str, object] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
        }
        if nulls:
            usage["prompt_tokens_details"] = None
        if self.asked.endpoint == "chat":
            usage["completion_tokens_details"] = {"reasoning_tokens": thought_tokens(self.speeches)}
        elif nulls:
            usage["completion_tokens_details"] = None
        return usage

    def _prompt_ids(self, index: int) -> tuple[int, ...] | None:
        return self.asked.prompt_of(index) if self.gives_ids else None

    def _ids(self, tokens: Sequence[Token]) -> list[int] | None:
        return [token.id for token in tokens] if self.gives_ids else None

    def _choice(self, index: int, speech: Speech) -> Json:
        choice: dict[str, object] = {"index": index}
        if self.asked.endpoint == "chat":
            choice["message"] = self._message(speech)
        else:
            choice["text"] = speech.text("content")
        choice |= {
            "logprobs": self._logprobs(speech.tokens, 0),
            "finish_reason": speech.finish,
            "stop_reason": _stop_reason(speech),
        }
        if self.script.since("0.10.2"):
            choice["token_ids"] = self._ids(speech.tokens)
        if self.asked.endpoint == "completions":
            choice |= {"prompt_logprobs": None, "prompt_token_ids": self._prompt_ids(index)}
        if self.script.since("0.23"):
            choice["routed_experts"] = None
        if self.script.since("0.33"):
            choice["weight_versions"] = self._weight_versions(speech)
        return choice

    def _weight_versions(self, speech: Speech) -> list[Json] | None:
        if not self.flags.return_weight_versions:
            return None
        return [{"version": self.script.weight_version, "start": 0, "end": len(speech.tokens)}]

    def _message(self, speech: Speech) -> Json:
        message: dict[str, object] = {
            "role": "assistant",
            "content": speech.text("content") or None,
            "refusal": None,
            "annotations": None,
            "audio": None,
            "function_call": None,
        }
        calls = [
            {
                "id": self._call_id(number),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for number, call in enumerate(speech.calls)
        ]
        if calls:
            message["tool_calls"] = calls
        reasoning = speech.text("reasoning") if self.flags.include_reasoning else ""
        return message | dict.fromkeys(self._reasoning_fields, reasoning or None)

    @property
    def _reasoning_fields(self) -> tuple[str, ...]:
        if not self.script.since("0.12"):
            return ("reasoning_content",)
        return ("reasoning",) if self.script.since("0.16") else ("reasoning", "reasoning_content")

    def _call_id(self, number: int) -> str:
        return f"chatcmpl-tool-{self.stamp.id}-{number}"

    def _role_chunk(self, index: int) -> Json:
        choice = {"index": index, "delta": {"role": "assistant", "content": ""}, "logprobs": None}
        chunk = self._head(self._chunk_object) | {"choices": [choice | {"finish_reason": None}]}
        if self.script.since("0.10.2"):
            chunk["prompt_token_ids"] = self._prompt_ids(index)
        if self.script.since("0.23"):
            chunk["prompt_text"] = None
        return chunk

    def _streamed_choice(self, step: Step) -> Json:
        speech = self.speeches[step.index]
        chat = self.asked.endpoint == "chat"
        choice: dict[str, object] = {"index": step.index}
        if chat:
            choice["delta"] = self._delta(step.tokens)
        else:
            choice["text"] = joined(step.tokens, "content")
        choice["logprobs"] = self._logprobs(step.tokens, len(joined(speech.tokens[: step.start], "content")))
        choice["finish_reason"] = speech.finish if step.last else None
        if step.last or not chat:
            choice["stop_reason"] = _stop_reason(speech) if step.last else None
        if not chat and self.script.since("0.10.2"):
            choice["prompt_token_ids"] = self._prompt_ids(step.index) if step.start == 0 else None
        if self.script.since("0.10.2"):
            choice["token_ids"] = self._ids(step.tokens)
        if step.last and self.script.since("0.33") and self.flags.return_weight_versions:
            choice["weight_versions"] = self._weight_versions(speech)
        return choice

    def _delta(self, tokens: Sequence[Token]) -> Json:
        """What the parsers let through of a step: often nothing, while its ids go out all the same."""
        delta: dict[str, object] = {}
        reasoning = joined(tokens, "reasoning") if self.flags.include_reasoning else ""
        if reasoning:
            delta |= dict.fromkeys(self._reasoning_fields, reasoning)
        content = joined(tokens, "content")
        if content:
            delta["content"] = content
        fragments = [fragment for token in tokens if (fragment := self._fragment(token)) is not None]
        if fragments:
            delta |= {"content": content or None, "tool_calls": fragments}
        return delta

    def _fragment(self, token: Token) -> Json | None:
        if token.part == "name":
            function = {"name": token.text}
            return {"id": self._call_id(token.call or 0), "type": "function", "index": token.call} | {
                "function": function
            }
        if token.part == "arguments" and token.text:
            return {"index": token.call, "function": {"arguments": token.text}}
        return None

    def _logprobs(self, tokens: Sequence[Token], start: int) -> Json | None:
        if not self._gives_logprobs:
            return None
        top = self.asked.top_logprobs or 0
        if self.asked.endpoint == "chat":
            return {"content": [self._entry(token, top) for token in tokens]}
        ends = [start]
        for token in tokens:
            ends.append(ends[-1] + len(token.text))
        return completion_logprobs(tokens, top, ends[:-1])

    def _entry(self, token: Token, top: int) -> Json:
        text = written(token.id)
        named = f"token_id:{token.id}" if self.flags.return_tokens_as_token_ids else text
        return {
            "token": named,
            "logprob": token.logprob,
            "bytes": list(text.encode()),
            "top_logprobs": [
                {"token": text, "logprob": logprob, "bytes": list(text.encode())}
                for text, logprob in alternatives(token, top)
            ],
        }
