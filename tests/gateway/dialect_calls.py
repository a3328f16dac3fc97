"""The smallest call of each dialect, for tests that hold for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.dialects.table import COUNTERS, ENDPOINTS

_SAID: Final = [{"role": "user", "content": "Hello?"}]

ASKED: Final[Mapping[str, Mapping[str, Any]]] = {
    "/v1/chat/completions": {"model": "scripted", "messages": _SAID},
    "/v1/completions": {"model": "scripted", "prompt": "Hello?"},
    "/v1/messages": {"model": "scripted", "max_tokens": 50, "messages": _SAID},
    "/v1/responses": {"model": "scripted", "input": "Hello?"},
    "/v1/messages/count_tokens": {"model": "scripted", "messages": _SAID},
}


def error_of(path: str, told: Any) -> tuple[str, str]:
    """Type and sentence of an error in the shape of this endpoint's API. Fails where it has another one."""
    if path.startswith("/v1/messages"):
        assert told["type"] == "error", told
        assert told["error"].keys() == {"type", "message"}, told
    else:
        assert told["error"].keys() == {"message", "type", "param", "code"}, told
    return told["error"]["type"], told["error"]["message"]


assert ASKED.keys() == ENDPOINTS.keys() | COUNTERS.keys(), "each dialect has its call here"
