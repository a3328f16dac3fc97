"""Any OpenAI-compatible server: text and usage, or text alone; token ids never."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from adapters.scripts.asked import Asked, BadRequest
from adapters.scripts.script import Answer, Frame, Json, Stamp, Step, Told, steps, streamed, whole
from adapters.scripts.shapes import alternatives, completion_logprobs, counts, joined, written
from adapters.scripts.speech import Speech, Token


@dataclass(frozen=True, slots=True)
class OpenAIScript:
    engine: ClassVar[str] = "openai"
    tells_ids: ClassVar[bool] = False
    counts_at: ClassVar[str | None] = None
    model: str
    version: str = "1"
    variant: str | None = None
    """Null tells usage in a stream where asked, `unasked` always and on the last chunk, `text` not at all."""
    tokens_per_chunk: int = 1

    def answer(self, asked: Asked, speeches: Sequence[Speech], stamp: Stamp) -> Answer:
        if asked.model is not None and asked.model != self.model:
            return _error(404, f"The model `{asked.model}` does not exist.", "model_not_found")
        call = _Call(self, asked, tuple(speeches), stamp)
        if asked.stream:
            return streamed(call.chunks(), content_type="text/event-stream")
        return whole(call.whole())

    def unreadable(self, error: BadRequest) -> Answer:
        return _error(400, str(error), None)

    def page(self, path: str) -> Answer | None:
        match path:
            case "/v1/models":
                card = {"id": self.model, "object": "model", "created": 0, "owned_by": "me"}
                return whole({"object": "list", "data": [card]})
            case "/health":
                return Answer(200, (Frame(b'{"status":"ok"}'),))
        return None

    def missing(self, method: str, path: str) -> Answer:
        return _error(404, f"Invalid URL ({method} {path})", None)


def _error(status: int, message: str, code: str | None) -> Answer:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return whole({"error": error}, status=status)


@dataclass(frozen=True, slots=True)
class _Call:
    script: OpenAIScript
    asked: Asked
    speeches: tuple[Speech, ...]
    stamp: Stamp

    @property
    def _chat(self) -> bool:
        return self.asked.endpoint == "chat"

    def whole(self) -> Json:
        choices = [self._choice(index, speech) for index, speech in enumerate(self.speeches)]
        body = self._head("chat.completion" if self._chat else "text_completion") | {"choices": choices}
        return body if self.script.variant == "text" else body | {"usage": self._usage()}

    def chunks(self) -> Iterator[tuple[Json, Told]]:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        open_choices = len(self.speeches)
        for step in steps(self.speeches, self.script.tokens_per_chunk):
            if self._chat and step.start == 0:
                delta = {"role": "assistant", "content": ""}
                role = {"index": step.index, "delta": delta, "finish_reason": None}
                yield self._head(kind) | {"choices": [role]}, ()
            open_choices -= step.last
            if not step.last and not any(token.text for token in step.tokens):
                continue
            chunk = self._head(kind) | {"choices": [self._streamed_choice(step)]}
            if self.script.variant == "unasked":
                chunk["usage"] = self._usage() if open_choices == 0 else None
            yield chunk, ()
        if self.asked.include_usage and self.script.variant is None:
            yield self._head(kind) | {"choices": [], "usage": self._usage()}, ()

    def _head(self, kind: str) -> dict[str, object]:
        prefix = "chatcmpl" if self._chat else "cmpl"
        head: dict[str, object] = {"id": f"{prefix}-{self.stamp.id}", "object": kind}
        return head | {"created": self.stamp.created, "model": self.script.model}

    def _usage(self) -> Json:
        prompt, completion = counts(self.asked, self.speeches)
        total = prompt + completion
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}

    def _choice(self, index: int, speech: Speech) -> Json:
        said: Json = {"text": speech.text("content")}
        if self._chat:
            said = {"message": {"role": "assistant", "content": speech.text("content") or None} | self._extras(speech)}
        logprobs = self._logprobs(speech.tokens)
        return {"index": index} | said | {"logprobs": logprobs, "finish_reason": speech.finish}

    def _extras(self, speech: Speech) -> dict[str, object]:
        calls = [
            {
                "id": f"call_{self.stamp.id}{number}",
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for number, call in enumerate(speech.calls)
        ]
        return {"tool_calls": calls} if calls else {}

    def _streamed_choice(self, step: Step) -> Json:
        said: Json = {"text": joined(step.tokens, "content")}
        if self._chat:
            said = {"delta": self._delta(step.tokens)}
        finish = self.speeches[step.index].finish if step.last else None
        logprobs = self._logprobs(step.tokens)
        return {"index": step.index} | said | {"logprobs": logprobs, "finish_reason": finish}

    def _delta(self, tokens: Sequence[Token]) -> Json:
        content = joined(tokens, "content")
        fragments = [self._fragment(token, token.call) for token in tokens if token.call is not None and token.text]
        delta: dict[str, object] = {"content": content} if content else {}
        return delta | {"tool_calls": fragments} if fragments else delta

    def _fragment(self, token: Token, call: int) -> Json:
        if token.part == "name":
            function = {"name": token.text, "arguments": ""}
            return {
                "index": call,
                "id": f"call_{self.stamp.id}{call}",
                "type": "function",
                "function": function,
            }
        return {"index": call, "function": {"arguments": token.text}}

    def _logprobs(self, tokens: Sequence[Token]) -> Json | None:
        """Of the tokens that have text: an OpenAI server does not show the end of the turn."""
        if not self.asked.logprobs:
            return None
        shown = [token for token in tokens if token.text]
        top = self.asked.top_logprobs or 0
        if not self._chat:
            return completion_logprobs(shown, top, [0] * len(shown))
        return {"content": [_entry(token, top) for token in shown], "refusal": None}


def _entry(token: Token, top: int) -> Json:
    text = written(token.id)
    likeliest = [_candidate(*alternative) for alternative in alternatives(token, top)]
    return _candidate(text, token.logprob) | {"top_logprobs": likeliest}


def _candidate(text: str, logprob: float | None) -> dict[str, object]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
