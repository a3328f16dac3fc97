"""Each engine that tells token ids, in the versions and variants that tell them differently."""

from __future__ import annotations

from typing import Final

# Engine, version, variant.
TELLING: Final[tuple[tuple[str, str, str | None], ...]] = (
    ("vllm", "0.33.0", None),
    ("vllm", "0.20.2", None),
    ("vllm", "0.11.0", None),
    ("sglang", "0.5.23", None),
    ("sglang", "0.5.17", None),
    ("sglang", "0.5.9", "agentcore"),
    ("sglang", "0.5.11", "llm360"),
    ("dynamo", "1.6.1", "vllm"),
    ("dynamo", "1.6.1", "sglang"),
)
