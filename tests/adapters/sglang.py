"""SGLang's servers, and calls to them, for the tests of its adapter."""

from __future__ import annotations

from typing import Any

from adapters.engines import adapter_for
from adapters.server import Server

HELLO: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Say hello."}]}
STREAM: dict[str, Any] = {"stream": True}


def sglang(version: str | None = None, variant: str | None = None) -> Server:
    return adapter_for("sglang").server(version, variant)


NEWEST = sglang("0.5.23")
