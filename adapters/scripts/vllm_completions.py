"""vLLM's legacy completions: prompt ids and completion ids both on the choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from adapters.scripts.asked import Asked
from adapters.scripts.script import Json, Stamp, Step, Told, steps, told
from adapters.scripts.shapes import completion_logprobs, counts, echoed, joined
from adapters.scripts.speech import Speech
from adapters.scripts.vllm_places import Places, stop_reason


@dataclass(frozen=True, slots=True)
class CompletionsCall:
    asked: Asked
    speeches: tuple[Speech, ...]
    places: Places
    stamp: Stamp
    model: str

    def whole(self) -> Json:
        choices = [self._choice(index, speech) for index, speech in enumerate(self.speeches)]
        return {
            **self._head(),
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": self.places.fingerprint,
            "usage": self._usage() | {"prompt_tokens_details": None, "completion_tokens_details": None},
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    def chunks(self, size: int) -> Iterator[tuple[Json, Told]]:
        for step in steps(self.speeches, size):
            shown = told(step.index, step.tokens) if self.places.ids else ()
            yield self._head() | {"choices": [self._streamed_choice(step)]}, shown
        if self.asked.include_usage:
            usage = {"choices": [], "usage": self._usage(), "system_fingerprint": self.places.fingerprint}
            yield self._head() | usage, ()

    def _head(self) -> Json:
        stamp = self.stamp
        return {"id": f"cmpl-{stamp.id}", "object": "text_completion", "created": stamp.created, "model": self.model}

    def _usage(self) -> Json:
        prompt, completion = counts(self.asked, self.speeches)
        return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}

    def _choice(self, index: int, speech: Speech) -> Json:
        return {
            "index": index,
            "text": self._echo(index) + speech.text("content"),
            "logprobs": self._logprobs(Step(index, 0, speech.tokens, last=True)),
            "finish_reason": speech.finish,
            "stop_reason": stop_reason(speech),
            **self.places.ids_of(speech.tokens),
            "prompt_logprobs": None,
            **self.places.prompt_ids(self.asked.prompt_of(index)),
            **self.places.experts_and_weights(speech),
        }

    def _streamed_choice(self, step: Step) -> Json:
        """The first chunk of each choice has its prompt's ids, the others a null."""
        speech = self.speeches[step.index]
        prompt = self.places.prompt_ids(self.asked.prompt_of(step.index))
        return {
            "index": step.index,
            "text": (self._echo(step.index) if step.start == 0 else "") + joined(step.tokens, "content"),
            "logprobs": self._logprobs(step),
            "finish_reason": speech.finish if step.last else None,
            "stop_reason": stop_reason(speech) if step.last else None,
            **(prompt if step.start == 0 else dict.fromkeys(prompt)),
            **self.places.ids_of(step.tokens),
            **(self.places.streamed_spans(speech) if step.last else {}),
        }

    def _logprobs(self, step: Step) -> Json | None:
        if not self.places.logprobs:
            return None
        prompt = echoed(self.asked, step.index)
        before = (*prompt, *self.speeches[step.index].tokens[: step.start]) if step.start else ()
        tokens = step.tokens if step.start else (*prompt, *step.tokens)
        offsets = [len(joined(before, "content"))]
        for token in tokens:
            offsets.append(offsets[-1] + len(token.text))
        return completion_logprobs(tokens, self.asked.top_logprobs or 0, offsets[:-1])

    def _echo(self, index: int) -> str:
        """With ids the prompt is told as such, and its text is left out."""
        return "" if self.places.ids else joined(echoed(self.asked, index), "content")
