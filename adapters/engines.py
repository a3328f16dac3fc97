"""The table of the engines: the only place that lists them."""

from __future__ import annotations

from typing import Final

from adapters.adapter import Adapter
from adapters.openai import OpenAI
from adapters.vllm import Vllm

_ADAPTERS: Final[dict[str, Adapter]] = {adapter.engine: adapter for adapter in (Vllm(), OpenAI())}

ENGINES: Final[tuple[str, ...]] = tuple(_ADAPTERS)


class UnknownEngine(ValueError):
    """No adapter has this name."""

    def __init__(self, engine: str) -> None:
        super().__init__(f"unknown engine {engine!r}; known are {', '.join(ENGINES)}")
        self.engine = engine


def adapter_for(engine: str) -> Adapter:
    """The adapter of an engine. Raises UnknownEngine."""
    try:
        return _ADAPTERS[engine]
    except KeyError:
        raise UnknownEngine(engine) from None
