"""SGLang's way to pause. Source: the released wheel 0.5.23; the routes want its admin key where it has one."""

from __future__ import annotations

from typing import Final

from adapters.control import Action, Command, EnginePause, NotOffered

_BODIES: Final[dict[EnginePause, bytes]] = {"abort": b'{"mode":"abort"}', "keep": b'{"mode":"in_place"}'}
_NO_WAIT: Final = (
    "SGLang has no pause that waits; the gateway's own `wait` does that, and `keep` or `abort` is for the rest"
)


def command(action: Action, mode: EnginePause) -> Command:
    """Raises NotOffered."""
    if action == "flush":
        # Refused by the engine while it has requests.
        return Command("/flush_cache")
    if action == "resume":
        return Command("/continue_generation", b"{}")
    if mode not in _BODIES:
        raise NotOffered(_NO_WAIT)
    return Command("/pause_generation", _BODIES[mode])
