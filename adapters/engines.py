"""The table of the engines: the only place that lists them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from adapters.adapter import Adapter
from adapters.detect import Configured, Question, Replies, listed_models
from adapters.dynamo import Dynamo
from adapters.engine import has_number
from adapters.llamacpp import LlamaCpp
from adapters.lmdeploy import LMDeploy
from adapters.mlx_lm import MlxLm
from adapters.openai import OpenAI
from adapters.server import Server
from adapters.sglang import Sglang
from adapters.trtllm import TensorRTLLM
from adapters.vllm import Vllm

# A server is the first engine's that recognises it, so the last is the one that takes whatever is left.
_ADAPTERS: Final[dict[str, Adapter]] = {
    adapter.engine: adapter
    for adapter in (Sglang(), Dynamo(), TensorRTLLM(), LlamaCpp(), LMDeploy(), MlxLm(), Vllm(), OpenAI())
}

ENGINES: Final[tuple[str, ...]] = tuple(_ADAPTERS)


class UnknownEngine(ValueError):
    """No adapter has this name."""

    def __init__(self, engine: str) -> None:
        super().__init__(f"unknown engine {engine!r}; known are {', '.join(ENGINES)}")
        self.engine = engine
        self.known = ENGINES


class UnknownWord(ValueError):
    """No server of this engine has this feature, or is of this variant."""

    def __init__(self, kind: str, word: str, engine: str | None, known: Iterable[str]) -> None:
        self.word = word
        self.told = f"{kind} {word!r} {f'of the engine {engine}' if engine is not None else 'of any engine'}"
        self.known = tuple(sorted(known))
        super().__init__(f"unknown {self.told}; known are {', '.join(self.known) or 'none'}")


class UnknownVersion(ValueError):
    """No table of features by version has a place for this."""

    def __init__(self, version: str) -> None:
        super().__init__(f"the version {version!r} is no release's number: write for instance 0.33.0")
        self.version = version


def adapter_for(engine: str) -> Adapter:
    """The adapter of an engine. Raises UnknownEngine."""
    try:
        return _ADAPTERS[engine]
    except KeyError:
        raise UnknownEngine(engine) from None


def check(configured: Configured) -> None:
    """Raises UnknownEngine, UnknownWord or UnknownVersion for what nobody would heed."""
    named = (adapter_for(configured.engine),) if configured.engine is not None else tuple(_ADAPTERS.values())
    features = frozenset[str]().union(*(adapter.words for adapter in named))
    for feature in sorted(configured.features - features):
        raise UnknownWord("feature", feature, configured.engine, features)
    variants = frozenset[str]().union(*(adapter.variants for adapter in named))
    if configured.variant is not None and configured.variant not in variants:
        raise UnknownWord("variant", configured.variant, configured.engine, variants)
    if configured.version is not None and not has_number(configured.version):
        raise UnknownVersion(configured.version)


def identify(replies: Replies, configured: Configured) -> Server:
    """What a server is by its replies to the plain questions, the configuration's word above them.

    Raises UnknownEngine, where the configuration names none of ours.
    """
    if configured.engine is not None:
        adapter = adapter_for(configured.engine)
        heard = adapter.recognise(replies)
    else:
        adapter, heard = _recognised(replies)
    server = adapter.configured(configured, heard)
    return server if server.models else replace(server, models=tuple(model.id for model in listed_models(replies)))


def probes(server: Server) -> tuple[Question, ...]:
    """What is to be asked of the server's model itself, to know what it can."""
    return adapter_for(server.engine).probes(server)


def corrected(server: Server, replies: Replies) -> Server:
    """The server as the replies to its probes, by their names, show it."""
    return adapter_for(server.engine).corrected(server, replies)


def _recognised(replies: Replies) -> tuple[Adapter, Server | None]:
    for adapter in _ADAPTERS.values():
        if (heard := adapter.recognise(replies)) is not None:
            return adapter, heard
    return adapter, None
