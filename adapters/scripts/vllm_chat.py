"""vLLM's chat completions: prompt ids at the root, or on each choice's role chunk; completion ids on the choice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adapters.scripts.asked import Asked
from adapters.scripts.script import Json, Stamp, Step, Told, steps, told
from adapters.scripts.shapes import alternatives, counts, joined, thought_tokens, written
from adapters.scripts.speech import Speech, Token
from adapters.scripts.vllm_places import Places, stop_reason

_CHUNK = "chat.completion.chunk"


@dataclass(frozen=True, slots=True)
class ChatCall:
    asked: Asked
    speeches: tuple[Speech, ...]
    places: Places
    stamp: Stamp
    model: str

    def whole(self) -> Json:
        body: Json = {
            **self._head("chat.completion"),
            "choices": [self._choice(index, speech) for index, speech in enumerate(self.speeches)],
            "service_tier": None,
            "system_fingerprint": self.places.fingerprint,
            "usage": self._usage(nulls=True),
            "prompt_logprobs": None,
            **self.places.prompt_ids(self.asked.prompts[0]),
        }
        if self.places.prompt_text:
            body["prompt_text"] = None
        return body | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None}

    def chunks(self, size: int) -> Iterator[tuple[Json, Told]]:
        """All role chunks first, then the steps of all choices as they come."""
        for index in range(len(self.speeches)):
            yield self._role_chunk(index), ()
        for step in steps(self.speeches, size):
            if self.places.swallows and not step.last and not any(token.text for token in step.tokens):
                continue
            shown = told(step.index, step.tokens) if self.places.ids else ()
            yield self._head(_CHUNK) | {"choices": [self._streamed_choice(step)]}, shown
        if self.asked.include_usage:
            usage = {"choices": [], "usage": self._usage(nulls=False), "system_fingerprint": self.places.fingerprint}
            yield self._head(_CHUNK) | usage, ()

    def _head(self, kind: str) -> Json:
        stamp = self.stamp
        return {"id": f"chatcmpl-{stamp.id}", "object": kind, "created": stamp.created, "model": self.model}

    def _usage(self, *, nulls: bool) -> Json:
        prompt, completion = counts(self.asked, self.speeches)
        usage: Json = {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}
        if nulls:
            usage["prompt_tokens_details"] = None
        return usage | {"completion_tokens_details": {"reasoning_tokens": thought_tokens(self.speeches)}}

    def _choice(self, index: int, speech: Speech) -> Json:
        return {
            "index": index,
            "message": self._message(speech),
            "logprobs": self._logprobs(speech.tokens),
            "finish_reason": speech.finish,
            "stop_reason": stop_reason(speech),
            **self.places.ids_of(speech.tokens),
            **self.places.experts_and_weights(speech),
        }

    def _message(self, speech: Speech) -> Json:
        message: Json = {
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
        thought = speech.text("reasoning") if self.places.reasoning else ""
        return message | dict.fromkeys(self.places.all_reasoning, thought or None)

    def _call_id(self, number: int) -> str:
        return f"chatcmpl-tool-{self.stamp.id}-{number}"

    def _role_chunk(self, index: int) -> Json:
        delta = {"role": "assistant", "content": ""}
        choice = {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}
        chunk = self._head(_CHUNK) | {"choices": [choice]} | self.places.prompt_ids(self.asked.prompts[0])
        return chunk | {"prompt_text": None} if self.places.prompt_text else chunk

    def _streamed_choice(self, step: Step) -> Json:
        speech = self.speeches[step.index]
        choice: Json = {
            "index": step.index,
            "delta": self._delta(step.tokens),
            "logprobs": self._logprobs(step.tokens),
            "finish_reason": speech.finish if step.last else None,
        }
        if not step.last:
            return choice | self.places.ids_of(step.tokens)
        choice["stop_reason"] = stop_reason(speech)
        return choice | self.places.ids_of(step.tokens) | self.places.streamed_spans(speech)

    def _delta(self, tokens: Sequence[Token]) -> Json:
        """What the parsers let through of a step: often nothing, while its ids go out all the same."""
        reasoning, content = joined(tokens, "reasoning"), joined(tokens, "content")
        delta: Json = dict.fromkeys(self.places.reasoning, reasoning) if reasoning else {}
        if content:
            delta["content"] = content
        fragments = [self._fragment(token) for token in tokens if token.call is not None and token.text]
        return delta | {"content": content or None, "tool_calls": fragments} if fragments else delta

    def _fragment(self, token: Token) -> Json:
        if token.part != "name":
            return {"index": token.call, "function": {"arguments": token.text}}
        named: Json = {"id": self._call_id(token.call or 0), "type": "function", "index": token.call}
        return named | {"function": {"name": token.text}}

    def _logprobs(self, tokens: Sequence[Token]) -> Json | None:
        return {"content": [self._entry(token) for token in tokens]} if self.places.logprobs else None

    def _entry(self, token: Token) -> Json:
        text = written(token.id)
        named = f"token_id:{token.id}" if self.places.tokens_as_ids else text
        top = alternatives(token, self.asked.top_logprobs or 0)
        return {
            "token": named,
            "logprob": token.logprob,
            "bytes": list(text.encode()),
            "top_logprobs": [
                {"token": text, "logprob": logprob, "bytes": list(text.encode())} for text, logprob in top
            ],
        }
