"""Dynamo's answer to one call: OpenAI's shape, and in `nvext` what was asked for beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from adapters.scripts.asked import Asked
from adapters.scripts.script import Json, Stamp, Step, Told, steps, told
from adapters.scripts.shapes import alternatives, completion_logprobs, counts, joined, thought_tokens, written
from adapters.scripts.speech import Speech, Token
from adapters.scripts.vocabulary import CALL_END

_WORKER: Final = {"prefill_worker_id": 15972749464294392666, "decode_worker_id": 15972749464294392666}
_TIMING: Final = {"request_received_ms": 0, "prefill_time_ms": 4.0, "ttft_ms": 4.8, "total_time_ms": 32.7}


@dataclass(frozen=True, slots=True)
class Call:
    asked: Asked
    speeches: tuple[Speech, ...]
    extra: frozenset[str]
    stamp: Stamp
    model: str

    @property
    def tells_ids(self) -> bool:
        return self._named or not self.extra.isdisjoint({"completion_token_ids", "engine_data"})

    @property
    def _named(self) -> bool:
        """Whether the tokens of logprobs are written as `token_id:N`."""
        return self.asked.logprobs and self.asked.fields.get("return_tokens_as_token_ids") == b"true"

    @property
    def _chat(self) -> bool:
        return self.asked.endpoint == "chat"

    def whole(self) -> Json:
        choices = [self._choice(index, speech) for index, speech in enumerate(self.speeches)]
        kind = "chat.completion" if self._chat else "text_completion"
        # Later choices overwrite earlier ones in nvext, so a whole answer keeps the last one's.
        last = len(self.speeches) - 1
        nvext = self._nvext(last, self.speeches[last].tokens, finished=True)
        return self._body(kind, choices, self._usage()) | nvext

    def chunks(self, size: int) -> Iterator[tuple[Json, Told]]:
        kind = "chat.completion.chunk" if self._chat else "text_completion"
        held: dict[int, tuple[Token, ...]] = {}
        begun: set[int] = set()
        for step in steps(self.speeches, size):
            tokens = held.pop(step.index, ()) + step.tokens
            if _within_call(tokens) and not step.last:
                # A tool call goes out in one chunk, with all of its ids.
                held[step.index] = tokens
                continue
            choice = self._streamed_choice(replace(step, tokens=tokens), first=step.index not in begun)
            begun.add(step.index)
            nvext = self._nvext(step.index, tokens, finished=step.last)
            body = self._body(kind, [choice], None if self._chat else {})
            yield body | nvext, self._shown(step.index, tokens, last=step.last)
        if self.asked.include_usage:
            yield self._body(kind, [], self._usage()), ()

    def _body(self, kind: str, choices: Sequence[Json], usage: Json | None) -> dict[str, object]:
        """`usage`: null leaves the key out; an empty one is written as null, as completions have it."""
        prefix = "chatcmpl" if self._chat else "cmpl"
        body: dict[str, object] = {"id": f"{prefix}-{self.stamp.id}", "choices": choices}
        body |= {"created": self.stamp.created, "model": self.model}
        if not self._chat:
            body["system_fingerprint"] = None
        body["object"] = kind
        return body if usage is None else body | {"usage": usage or None}

    def _usage(self) -> Json:
        prompt, completion = counts(self.asked, self.speeches)
        usage: dict[str, object] = {"prompt_tokens": prompt, "completion_tokens": completion}
        usage["total_tokens"] = prompt + completion
        if self._chat:
            usage["completion_tokens_details"] = {"reasoning_tokens": thought_tokens(self.speeches)}
        return usage

    def _nvext(self, index: int, tokens: Sequence[Token], *, finished: bool) -> dict[str, object]:
        """Each chunk has its own ids; the prompt's, and what is known at the end, stand on the last."""
        at_end = {"timing", "engine_data", "prompt_token_ids"}
        values: dict[str, object] = {
            "worker_id": _WORKER,
            "timing": _TIMING,
            "engine_data": self._engine_data(index),
            "completion_token_ids": [token.id for token in tokens],
            "prompt_token_ids": self.asked.prompt_of(index),
        }
        nvext = {
            name: value for name, value in values.items() if name in self.extra and (finished or name not in at_end)
        }
        return {"nvext": nvext} if nvext else {}

    def _engine_data(self, index: int) -> Json:
        speech = self.speeches[index]
        data: dict[str, object] = {"completion_token_ids": speech.ids, "finished": True}
        if self.asked.logprobs:
            data["completion_logprobs"] = speech.logprobs
        return data | {"prompt_token_ids": self.asked.prompt_of(index)}

    def _shown(self, index: int, tokens: Sequence[Token], *, last: bool) -> Told:
        if "completion_token_ids" in self.extra or self._named:
            return told(index, tokens)
        return told(index, self.speeches[index].tokens) if last and "engine_data" in self.extra else ()

    def _choice(self, index: int, speech: Speech) -> Json:
        if not self._chat:
            choice: dict[str, object] = {"text": speech.text("content"), "index": index}
            choice |= self._completion_logprobs(speech.tokens)
            return choice | {"finish_reason": speech.finish}
        calls = [self._tool_call(number, call.name, call.arguments) for number, call in enumerate(speech.calls)]
        message: dict[str, object] = {"content": speech.text("content") or None, "refusal": None}
        if calls:
            message["tool_calls"] = calls
        message["role"] = "assistant"
        if speech.text("reasoning"):
            message["reasoning_content"] = speech.text("reasoning")
        logprobs = self._chat_logprobs(speech.tokens)
        return {"index": index, "message": message, "finish_reason": speech.finish, "logprobs": logprobs}

    def _streamed_choice(self, step: Step, *, first: bool) -> Json:
        finish = self.speeches[step.index].finish if step.last else None
        if not self._chat:
            choice: dict[str, object] = {"text": joined(step.tokens, "content"), "index": step.index}
            choice |= self._completion_logprobs(step.tokens)
            return choice | {"finish_reason": finish} if step.last else choice
        delta = self._delta(step.tokens) | ({"role": "assistant"} if first else {})
        logprobs = self._chat_logprobs(step.tokens)
        return {"index": step.index, "delta": delta, "finish_reason": finish, "logprobs": logprobs}

    def _delta(self, tokens: Sequence[Token]) -> dict[str, object]:
        delta: dict[str, object] = {}
        content, reasoning = joined(tokens, "content"), joined(tokens, "reasoning")
        speech = Speech(tuple(tokens))
        numbers = [token.call for token in tokens if token.part == "name" and token.call is not None]
        calls = [
            {"index": number} | self._tool_call(number, call.name, call.arguments)
            for number, call in zip(numbers, speech.calls, strict=False)
        ]
        if content or calls:
            delta["content"] = content
        if reasoning:
            delta["reasoning_content"] = reasoning
        return delta | {"tool_calls": calls} if calls else delta

    def _tool_call(self, number: int, name: str, arguments: str) -> Json:
        function = {"name": name, "arguments": arguments}
        return {"id": f"call-{self.stamp.id}-{number}", "type": "function", "function": function}

    def _chat_logprobs(self, tokens: Sequence[Token]) -> Json | None:
        """Each entry has the token's id, a field that OpenAI does not have; an end token has no text here."""
        if not self.asked.logprobs:
            return None
        entries: list[Json] = []
        for token in tokens:
            text = written(token.id) if token.text or token.part != "mark" or token.call is not None else ""
            entry: dict[str, object] = {"token": text, "logprob": token.logprob, "token_id": token.id}
            entry["bytes"] = list(text.encode()) if text else None
            top = alternatives(token, self.asked.top_logprobs or 0)
            entry["top_logprobs"] = [
                {"token": text, "logprob": logprob, "bytes": list(text.encode())} for text, logprob in top
            ]
            entries.append(entry)
        return {"content": entries, "refusal": None}

    def _completion_logprobs(self, tokens: Sequence[Token]) -> dict[str, object]:
        if not self.asked.logprobs:
            return {}
        lists = {**completion_logprobs(tokens, self.asked.top_logprobs or 0, ())}
        if self._named:
            lists["tokens"] = [f"token_id:{token.id}" for token in tokens]
        return {"logprobs": {name: lists[name] for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}}


def _within_call(tokens: Sequence[Token]) -> bool:
    """Whether the last of them belongs to a call that has not ended yet."""
    return tokens[-1].call is not None and tokens[-1].id != CALL_END
