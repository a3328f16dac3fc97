"""What engines say of the weights that sampled an answer, and what they call those that nobody has named to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from adapters.schema import Choice, Completion, WeightSpan

UNNAMED: Final = "default"
"""What engines answer until somebody tells them a version: a trainer may have told the gateway alone."""


def named(choices: tuple[Choice, ...], known: str | None) -> tuple[Choice, ...]:
    """The choices, where spans of weights that the engine has no name for have the one that we know."""
    if known is None or not any(_is_unnamed(choice.weight_versions) for choice in choices):
        return choices
    return tuple(
        replace(choice, weight_versions=tuple(_with_name(span, known) for span in choice.weight_versions or ()))
        if _is_unnamed(choice.weight_versions)
        else choice
        for choice in choices
    )


def latest(completion: Completion) -> str | None:
    """The version with which the engine ended this answer; None where it does not say, or has no name for it."""
    ends = {choice.weight_versions[-1].version for choice in completion.choices if choice.weight_versions}
    if len(ends) > 1:
        return None
    version = next(iter(ends), completion.weight_version)
    return None if version == UNNAMED else version


def _is_unnamed(spans: Iterable[WeightSpan] | None) -> bool:
    return any(span.version == UNNAMED for span in spans or ())


def _with_name(span: WeightSpan, known: str) -> WeightSpan:
    return replace(span, version=known) if span.version == UNNAMED else span
