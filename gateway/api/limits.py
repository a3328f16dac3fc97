"""What a session's maker may set for its calls: sampling parameters that are pinned, and budgets."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, model_serializer, model_validator

from gateway.api.inputs import Strict

_Amount = Annotated[int, Field(ge=0, le=2**53, strict=True)]
_Count = Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1, strict=True)]
_Choices = Annotated[int, Field(ge=1, le=128, strict=True)]
_Text = Annotated[str, Field(max_length=1024)]
_Texts = Annotated[list[_Text], Field(max_length=64)]


class _Told(Strict):
    """Kept as it was said: a null is a word of its own, and what was not named is not there."""

    @model_serializer
    def _said(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


class PinnedSampling(_Told):
    """Sent in every call of the session in the place of what its agent asks for. A null leaves the parameter out."""

    best_of: _Choices | None = None
    frequency_penalty: _Number | None = None
    ignore_eos: bool | None = None
    logit_bias: Annotated[dict[str, _Number], Field(max_length=1024)] | None = None
    max_completion_tokens: _Count | None = None
    max_tokens: _Count | None = None
    """The same limit under its other name; it goes out under the one that the agent uses."""
    min_p: _Share | None = None
    min_tokens: _Amount | None = None
    n: _Choices | None = None
    presence_penalty: _Number | None = None
    repetition_penalty: _NotNegative | None = None
    seed: Annotated[int, Field(ge=-(2**63), le=2**63 - 1, strict=True)] | None = None
    stop: _Text | _Texts | None = None
    stop_token_ids: Annotated[list[_Amount], Field(max_length=1024)] | None = None
    temperature: _NotNegative | None = None
    top_k: Annotated[int, Field(ge=-1, le=2**31 - 1, strict=True)] | None = None
    top_p: _Share | None = None

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        if {"max_tokens", "max_completion_tokens"} <= self.model_fields_set:
            raise ValueError("max_tokens and max_completion_tokens are one limit under two names: send one of them")
        return self


class Budgets(_Told):
    """What the session may use up. A call beyond it is answered with an end, and not sent."""

    calls: _Amount | None = None
    completion_tokens: _Amount | None = None
    """Sampled ones."""
    total_tokens: _Amount | None = None
    """Sampled ones and those of the prompts."""
    seconds: _NotNegative | None = None
    """Since the session's first call."""
