"""Dynamo's way to pause: at each worker's system server, never at the frontend that takes the calls.

Source: the released wheel 1.6.1 (`dynamo/common/rl/admin.py`).
"""

from __future__ import annotations

from typing import Final

from adapters.control import Action, Command, EnginePause

_ABSENT: Final = (
    "Dynamo answers there at each worker's system server alone, not at the frontend: name these by `control_urls`"
)


def command(action: Action, mode: EnginePause) -> Command:
    if action == "flush":
        return Command("/engine/flush_cache", b"{}", _ABSENT)
    if action == "resume":
        return Command("/engine/resume_generation", b"{}", _ABSENT)
    return Command("/engine/pause_generation", b'{"mode":"%b","clear_cache":true}' % mode.encode(), _ABSENT)
