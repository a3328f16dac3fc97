"""SGLang's legacy completions: ids and prompt ids on the choice, as deltas in a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from adapters.scripts.asked import Asked
from adapters.scripts.script import Json, Stamp, Step, Told, steps, told
from adapters.scripts.sglang_places import Places, matched
from adapters.scripts.shapes import completion_logprobs, echoed, joined
from adapters.scripts.speech import Speech


@dataclass(frozen=True, slots=True)
class CompletionsCall:
    asked: Asked
    speeches: tuple[Speech, ...]
    places: Places
    stamp: Stamp
    model: str

    def whole(self) -> Json:
        return {
            **self._head(),
            "choices": [
                self._choice(Step(index, 0, speech.tokens, last=True)) for index, speech in enumerate(self.speeches)
            ],
            "usage": self.places.usage(self.asked, self.speeches),
            "metadata": self.places.metadata(self.speeches),
        }

    def chunks(self, size: int) -> Iterator[tuple[Json, Told]]:
        for step in steps(self.speeches, size):
            shown = told(step.index, step.tokens) if self.places.ids is not None else ()
            yield self._head() | {"choices": [self._choice(step)], "usage": None}, shown
        if self.asked.include_usage:
            usage = self.places.usage(self.asked, self.speeches, nulls=False)
            yield self._head() | {"choices": [], "usage": usage}, ()

    def _head(self) -> dict[str, object]:
        stamp = self.stamp
        return {"id": stamp.id, "object": "text_completion", "created": stamp.created, "model": self.model}

    def _choice(self, step: Step) -> Json:
        """A whole choice, or one step of it: the shapes are the same."""
        speech = self.speeches[step.index]
        prompt = echoed(self.asked, step.index) if step.start == 0 else ()
        # Of the prompt only where some alternatives are asked for: with 0 it has those of the answer alone.
        tokens = (*prompt, *step.tokens) if self.asked.top_logprobs else step.tokens
        logprobs = completion_logprobs(tokens, self.asked.top_logprobs or 0, [-1] * len(tokens))
        choice: dict[str, object] = {
            "index": step.index,
            "text": joined((*prompt, *step.tokens), "content"),
            "logprobs": logprobs if self.asked.logprobs else None,
            "finish_reason": speech.finish if step.last else None,
            "matched_stop": matched(speech) if step.last else None,
        }
        if self.places.ids is not None:
            choice[self.places.ids] = [token.id for token in step.tokens]
        if self.places.prompt_on_choice and step.start == 0:
            choice["prompt_token_ids"] = self.asked.prompt_of(step.index)
        return choice
