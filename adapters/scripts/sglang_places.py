"""Where SGLang puts what, for one call: its version, its variant and the request's flags, resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.scripts.asked import Asked
from adapters.scripts.script import Json
from adapters.scripts.shapes import counts, thought_tokens
from adapters.scripts.speech import Speech


@dataclass(frozen=True, slots=True)
class Places:
    ids: str | None
    """The key of each choice that has the completion ids."""
    prompt_on_choice: bool
    weight_version: str
    weight_spans: bool
    null_fields: bool
    """Whether null fields are written out: 0.5.9 does, 0.5.23 does not; what lies between was not read."""
    prompt_on_root: bool = False
    meta_info: bool = False
    sglext_input: bool = False
    sglext_output: bool = False
    parser_logprobs: bool = True
    """Whether streamed logprobs of reasoning and calls are kept (since 0.5.15)."""

    @property
    def tells_ids(self) -> bool:
        return self.ids is not None or self.sglext_output

    def metadata(self, speeches: Sequence[Speech]) -> Json:
        metadata: dict[str, object] = {"weight_version": self.weight_version}
        return metadata | {"weight_versions": self.spans(speeches[0])} if self.weight_spans else metadata

    def spans(self, speech: Speech) -> list[Json]:
        return [{"version": self.weight_version, "start": 0, "end": len(speech.tokens)}]

    def usage(self, asked: Asked, speeches: Sequence[Speech], *, nulls: bool = True) -> Json:
        prompt, completion = counts(asked, speeches)
        usage: dict[str, object] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + completion,
            "completion_tokens": completion,
        }
        if nulls:
            usage["prompt_tokens_details"] = None
        usage["reasoning_tokens"] = thought_tokens(speeches)
        if nulls and not self.null_fields:
            usage["completion_tokens_details"] = None
        return usage


def matched(speech: Speech) -> str | int | None:
    """The stop string, or the id of the end token, that ended a choice."""
    return speech.stop if speech.stop is not None else speech.eos
