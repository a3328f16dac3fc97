"""vLLM's way to pause: there with `VLLM_SERVER_DEV_MODE=1` alone, by `mode` from 0.16 on and by another name before.

Sources: the released wheels 0.12 … 0.33 and pull request 32351, which brought `mode`; FastAPI ignores the name that a
version does not know.
"""

from __future__ import annotations

from typing import Final

from adapters.control import Action, Command, EnginePause, NotOffered
from adapters.engine import parse_version
from adapters.server import Server

_ABSENT: Final = "vLLM answers there only when it is started with VLLM_SERVER_DEV_MODE=1, from 0.12 on"
_FIRST: Final = (0, 12)
_FIRST_WITH_MODE: Final = (0, 16)


def command(action: Action, mode: EnginePause, server: Server) -> Command:
    """Raises NotOffered."""
    if action == "flush":
        return Command("/reset_prefix_cache", absent=_ABSENT)
    version = parse_version(server.version)
    if version is not None and version < _FIRST:
        raise NotOffered(f"vLLM {server.version} has no pause: it came with 0.12")
    if action == "resume":
        return Command("/resume", absent=_ABSENT)
    # What was computed with the old weights is not to be gone on from; requests that are kept are computed anew.
    return Command(f"/pause?{_how(mode, server)}&clear_cache=true", absent=_ABSENT)


def _how(mode: EnginePause, server: Server) -> str:
    version = parse_version(server.version)
    if version is not None and version >= _FIRST_WITH_MODE:
        return f"mode={mode}"
    if mode == "keep":
        # Not knowing `mode`, an older one would end every request.
        raise NotOffered("vLLM before 0.16, or of a version that it does not tell, can't keep requests: wait or abort")
    waits = f"wait_for_inflight_requests={'true' if mode == 'wait' else 'false'}"
    return waits if version is not None else f"mode={mode}&{waits}"
