"""The canonical request: what a dialect makes of a body, and what an adapter plans from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from adapters.token_ids import TokenIds

Endpoint = Literal["chat", "completions"]


@dataclass(frozen=True, slots=True)
class CanonicalRequest:
    """An OpenAI chat or legacy completions request: the few fields that we read, typed, and all of them as raw JSON.

    `fields` keeps each root field's own JSON text, so what nobody reads goes upstream unchanged, numbers included.
    """

    endpoint: Endpoint
    fields: Mapping[str, msgspec.Raw]
    model: str | None
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    prompts: int = 1
    """How many prompts the call has (legacy completions alone can have several)."""
    prompt_token_ids: tuple[TokenIds, ...] | None = None
    """The prompts, where the caller sent ids instead of text: one each."""
    logprobs: bool = False
    """Whether the agent itself asked for logprobs."""
    top_logprobs: int | None = None
    return_token_ids: bool = False
    """vLLM's own flag, which an agent may use towards every engine."""
    keep_limits: bool = False
    """Whether a limit that no answer can reach is the server's to judge, whatever it says of it."""
    tools: bool = False
    """Whether tools are offered and may be called (`tool_choice` is not `none`)."""
    translated: bool = False
    """The agent speaks another API, and thoughts of earlier answers stand at `reasoning_content` of their messages,
    where chat templates and most engines look for them. In a chat of the agent's own they stand where it put them."""

    @property
    def expected_choices(self) -> int:
        return self.n * self.prompts
