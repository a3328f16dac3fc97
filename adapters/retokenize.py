"""Ids for servers that give text alone, and counts for those that give no usage: made from text, and marked so.

The tokenizer itself is the gateway's (it loads files and is slow); this says what is asked of it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from adapters.request import CanonicalRequest
from adapters.schema import Choice, Completion, Usage
from adapters.token_ids import TokenIds
from adapters.verdict import RETOKENIZED


class Encoder(Protocol):
    """A model's own tokenizer and chat template. What makes ids raises ValueError for what it cannot render."""

    def prompt(self, request: CanonicalRequest, index: int) -> TokenIds:
        """The ids of the request's prompt number `index`, with the template's generation prompt in chat."""
        ...

    def reply(self, request: CanonicalRequest, choice: Choice) -> TokenIds:
        """The ids that the model would have sampled for this choice: reasoning, text, tool calls, end of turn."""
        ...

    def decode(self, ids: TokenIds) -> str:
        """The text of ids, special tokens included."""
        ...


def retokenize(completion: Completion, request: CanonicalRequest, encoder: Encoder) -> Completion:
    """The completion with ids made from its text, where the engine gave none for any choice; else as it is.

    Logprobs are dropped: they belong to tokens that were sampled, and these were not. What the engine did not count is
    counted from these ids. Raises what the encoder raises.
    """
    if not completion.choices or any(choice.token_ids is not None for choice in completion.choices):
        return completion
    several = request.prompts > 1
    choices = tuple(
        replace(
            choice,
            token_ids=encoder.reply(request, choice),
            logprobs=None,
            prompt_token_ids=encoder.prompt(request, choice.index // request.n) if several else None,
        )
        for choice in completion.choices
    )
    prompt = completion.prompt_token_ids
    made = replace(
        completion,
        choices=choices,
        prompt_token_ids=prompt if several or prompt is not None else encoder.prompt(request, 0),
        source=RETOKENIZED,
        logprobs_mode=None,
        logprobs_reason="the token ids were made from text",
    )
    return with_usage(made, request)


def with_usage(completion: Completion, request: CanonicalRequest) -> Completion:
    """The completion with usage counted from its ids, where the engine gave none and all of them are known."""
    if completion.usage is not None or not completion.choices:
        return completion
    prompt = _prompt_tokens(completion, request)
    if prompt is None or any(choice.token_ids is None for choice in completion.choices):
        return completion
    sampled = sum(len(choice.token_ids or ()) for choice in completion.choices)
    return replace(completion, usage=Usage(prompt, sampled, prompt + sampled), usage_estimated=True)


def _prompt_tokens(completion: Completion, request: CanonicalRequest) -> int | None:
    if request.prompts == 1 and completion.prompt_token_ids is not None:
        return len(completion.prompt_token_ids)
    if request.prompt_token_ids is not None:
        return sum(map(len, request.prompt_token_ids))
    by_prompt = {choice.index // request.n: choice.prompt_token_ids for choice in completion.choices}
    known = [len(ids) for ids in by_prompt.values() if ids is not None]
    return sum(known) if request.prompts > 1 and len(known) == request.prompts else None
