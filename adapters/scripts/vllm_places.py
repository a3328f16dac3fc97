"""What vLLM puts where, for one call: its version and the request's flags, resolved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from adapters.scripts.script import Json
from adapters.scripts.speech import Speech, Token
from adapters.scripts.vocabulary import HALT


@dataclass(frozen=True, slots=True)
class Places:
    knows_ids: bool
    """Whether the fields for ids exist; without ids they are null."""
    ids: bool
    logprobs: bool
    tokens_as_ids: bool
    """Logprobs name tokens as `token_id:7`."""
    prompt_text: bool
    routed_experts: bool
    knows_weight_versions: bool
    weight_version: str | None
    """Null: not asked for."""
    reasoning: tuple[str, ...]
    """The fields that a thought is written to: none where it is left out."""
    all_reasoning: tuple[str, ...]
    """The fields that exist for it."""
    swallows: bool
    fingerprint: str

    def ids_of(self, tokens: Sequence[Token]) -> dict[str, object]:
        if not self.knows_ids:
            return {}
        return {"token_ids": [token.id for token in tokens] if self.ids else None}

    def prompt_ids(self, ids: tuple[int, ...]) -> dict[str, object]:
        return {"prompt_token_ids": ids if self.ids else None} if self.knows_ids else {}

    def experts_and_weights(self, speech: Speech) -> dict[str, object]:
        """The last fields of a whole answer's choice."""
        fields: dict[str, object] = {"routed_experts": None} if self.routed_experts else {}
        return fields | {"weight_versions": self.spans(speech)} if self.knows_weight_versions else fields

    def spans(self, speech: Speech) -> list[Json] | None:
        if self.weight_version is None:
            return None
        return [{"version": self.weight_version, "start": 0, "end": len(speech.tokens)}]

    def streamed_spans(self, speech: Speech) -> dict[str, object]:
        asked = self.knows_weight_versions and self.weight_version is not None
        return {"weight_versions": self.spans(speech)} if asked else {}


def stop_reason(speech: Speech) -> str | int | None:
    """The stop string, or the id of an end token that is not the model's first one."""
    return HALT if speech.eos == HALT else speech.stop
