"""SGLang's chat completions: ids on the choices of a whole answer, or in `sglext` at the end of any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adapters.scripts.asked import Asked
from adapters.scripts.script import Json, Stamp, Step, Told, steps, told, told_whole
from adapters.scripts.sglang_places import Places, matched
from adapters.scripts.shapes import alternatives, joined, written
from adapters.scripts.speech import Speech, Token


@dataclass(frozen=True, slots=True)
class ChatCall:
    asked: Asked
    speeches: tuple[Speech, ...]
    places: Places
    stamp: Stamp
    model: str

    def whole(self) -> Json:
        body: dict[str, object] = {
            **self._head("chat.completion"),
            "choices": [self._choice(index, speech) for index, speech in enumerate(self.speeches)],
            "usage": self.places.usage(self.asked, self.speeches),
            "metadata": self.places.metadata(self.speeches),
        }
        if self.places.prompt_on_root:
            body["prompt_token_ids"] = self.asked.prompts[0]
        return body | self._sglext()

    def chunks(self, size: int) -> Iterator[tuple[Json, Told]]:
        """Every choice's chunks; then, when all have ended, their finish chunks, the ids and the usage."""
        held: dict[int, tuple[Token, ...]] = {}
        for step in steps(self.speeches, size):
            if step.start == 0:
                yield self._role_chunk(step.index), ()
            held[step.index] = held.get(step.index, ()) + step.tokens
            yield from self._step_chunks(step, held)
        for index, speech in enumerate(self.speeches):
            late = held.get(index, ())
            yield self._chunk([self._finish(index, speech, late)]), self._shown(index, late)
        sglext = self._sglext()
        if sglext:
            ids = told_whole(self.speeches) if self.places.sglext_output else ()
            yield self._head("chat.completion.chunk") | {"choices": [], "usage": None} | sglext, ids
        if self.asked.include_usage:
            usage = {"choices": [], "usage": self.places.usage(self.asked, self.speeches)}
            yield self._head("chat.completion.chunk") | usage, ()

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self.stamp.id, "object": kind, "created": self.stamp.created, "model": self.model}

    def _chunk(self, choices: Sequence[Json], *, call: bool = False) -> Json:
        chunk = self._head("chat.completion.chunk") | {"choices": choices}
        return chunk | {"usage": None} if call or self.places.null_fields else chunk

    def _sglext(self) -> dict[str, object]:
        sglext: dict[str, object] = {}
        if self.places.sglext_input:
            sglext["input_ids"] = self.asked.prompts[0]
        if self.places.sglext_output:
            sglext["output_ids"] = [speech.ids for speech in self.speeches]
        return {"sglext": sglext} if sglext else {}

    def _choice(self, index: int, speech: Speech) -> Json:
        choice: dict[str, object] = {
            "index": index,
            "message": self._message(speech),
            "logprobs": {"content": self._entries(speech.tokens)} if self.asked.logprobs else None,
            "finish_reason": speech.finish,
            "matched_stop": None if speech.calls else matched(speech),
        }
        if self.places.prompt_on_choice:
            choice["prompt_token_ids"] = self.asked.prompts[0]
        if self.places.ids is not None:
            choice[self.places.ids] = speech.ids
        if self.places.meta_info:
            choice["meta_info"] = self._meta_info(speech)
        return choice

    def _message(self, speech: Speech) -> Json:
        message: dict[str, object] = {
            "role": "assistant",
            "content": speech.text("content") if speech.text("content") or not self.places.null_fields else None,
            "reasoning_content": speech.text("reasoning") or None,
        }
        calls = [
            {
                "id": self._call_id(number),
                "index": number,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for number, call in enumerate(speech.calls)
        ]
        if calls or self.places.null_fields:
            message["tool_calls"] = calls or None
        return message

    def _meta_info(self, speech: Speech) -> Json:
        ending: Json = {"type": speech.finish, "matched": matched(speech)}
        if speech.finish == "length":
            ending = {"type": "length", "length": len(speech.tokens)}
        meta: dict[str, object] = {
            "id": self.stamp.id,
            "finish_reason": ending,
            "prompt_tokens": len(self.asked.prompts[0]),
            "weight_version": self.places.weight_version,
            "num_retractions": 0,
        }
        if self.asked.logprobs:
            triples = [(token.logprob, token.id, None) for token in speech.tokens]
            meta |= {"input_token_logprobs": [], "output_token_logprobs": triples}
            meta["output_token_logprobs_length"] = len(triples)
        meta |= {"completion_tokens": len(speech.tokens), "cached_tokens": 0}
        return meta | {"weight_versions": self.places.spans(speech)} if self.places.weight_spans else meta

    def _call_id(self, number: int) -> str:
        return f"call_{self.stamp.id[:20]}{number:04}"

    def _delta(self, **fields: object) -> Json:
        """Chunks of 0.5.9, and those of calls in all versions, write every field."""
        if self.places.null_fields or "tool_calls" in fields:
            nulls = dict.fromkeys(("role", "content", "reasoning_content", "tool_calls"))
            return nulls | fields
        return {"reasoning_content": None} | fields

    def _role_chunk(self, index: int) -> Json:
        choice = {"index": index, "delta": self._delta(role="assistant", content=""), "logprobs": None}
        chunk = {**self._chunk([choice | {"finish_reason": None, "matched_stop": None}])}
        return chunk | {"prompt_token_ids": self.asked.prompts[0]} if self.places.prompt_on_root else chunk

    def _step_chunks(self, step: Step, held: dict[int, tuple[Token, ...]]) -> Iterator[tuple[Json, Told]]:
        """The chunks of one step, if it has text; the first that may carry ids takes those held back."""
        for delta, tokens in self._deltas(step.tokens):
            part = tokens[0].part
            ids = held[step.index] if part != "reasoning" else ()
            choice: Json = {
                "index": step.index,
                "delta": delta,
                "logprobs": self._streamed_logprobs(tokens, part),
                "finish_reason": None,
                "matched_stop": None,
                **self._ids(ids),
            }
            yield self._chunk([choice], call=tokens[0].call is not None), self._shown(step.index, ids)
            if ids:
                held[step.index] = ()

    def _deltas(self, tokens: Sequence[Token]) -> Iterator[tuple[Json, tuple[Token, ...]]]:
        """Each delta of a step, with the tokens that are in it."""
        reasoning = tuple(token for token in tokens if token.part == "reasoning")
        content = tuple(token for token in tokens if token.part == "content")
        if text := joined(reasoning, "reasoning"):
            yield self._delta(reasoning_content=text), reasoning
        if text := joined(content, "content"):
            yield self._delta(content=text), content
        for token in tokens:
            if token.call is not None and token.text:
                yield self._delta(tool_calls=[self._fragment(token, token.call)]), (token,)

    def _fragment(self, token: Token, call: int) -> Json:
        named = token.part == "name"
        function = {"name": token.text if named else None, "arguments": "" if named else token.text}
        return {"id": self._call_id(call) if named else None, "index": call, "type": "function"} | {
            "function": function
        }

    def _finish(self, index: int, speech: Speech, late: Sequence[Token]) -> Json:
        return {
            "index": index,
            "delta": self._delta(),
            "logprobs": None,
            "finish_reason": speech.finish,
            "matched_stop": matched(speech),
            **self._ids(late),
        }

    def _ids(self, tokens: Sequence[Token]) -> dict[str, object]:
        """In a stream only the patch tells ids on the choice, and drops the key where there are none."""
        if self.places.ids is None or not tokens:
            return {}
        return {self.places.ids: [token.id for token in tokens]}

    def _shown(self, index: int, tokens: Sequence[Token]) -> Told:
        return told(index, tokens) if self.places.ids is not None else ()

    def _streamed_logprobs(self, tokens: Sequence[Token], part: str) -> Json | None:
        """A step without text has no chunk, and its logprobs are gone: the end token's, and fragments'."""
        if not self.asked.logprobs or (part != "content" and not self.places.parser_logprobs):
            return None
        return {"content": self._entries(tokens)}

    def _entries(self, tokens: Sequence[Token]) -> list[Json]:
        return [self._entry(written(token.id), token.logprob) | self._top(token) for token in tokens]

    def _top(self, token: Token) -> Json:
        top = alternatives(token, self.asked.top_logprobs or 0)
        return {"top_logprobs": [self._entry(text, logprob) for text, logprob in top]}

    def _entry(self, text: str, logprob: float | None) -> dict[str, object]:
        return {"token": text, "bytes": list(text.encode()), "logprob": logprob}
