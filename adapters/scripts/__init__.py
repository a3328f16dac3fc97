"""Scripted engines: each one's answers in its own shape, from a script, without a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from adapters.scripts.dynamo import DynamoScript
from adapters.scripts.openai import OpenAIScript
from adapters.scripts.script import EngineScript
from adapters.scripts.sglang import SglangScript
from adapters.scripts.vllm import VllmScript

_ALL: Final = (VllmScript, SglangScript, DynamoScript, OpenAIScript)

SCRIPTS: Final[Mapping[str, Callable[..., EngineScript]]] = {script.engine: script for script in _ALL}
"""By engine. Each takes `model`, and as it wishes `version`, `variant` and `tokens_per_chunk`, by keyword."""

TELLING: Final = tuple(script.engine for script in _ALL if script.tells_ids)
"""The engines that tell token ids at all."""
