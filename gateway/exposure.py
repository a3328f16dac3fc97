"""Without keys a gateway is for its own machine alone: it does not listen to others, and its log says what is open."""

from __future__ import annotations

import logging

from gateway.keys import KeyRing
from gateway.settings import Settings, is_loopback

logger = logging.getLogger(__name__)


class Exposed(Exception):
    """Other machines would reach a listener at which nobody needs a key. Says what to do."""


def check_exposure(settings: Settings, ring: KeyRing) -> None:
    """Raises Exposed."""
    if not ring.needs_agents_keys:
        if not is_loopback(settings.host):
            raise Exposed(
                f"host {settings.host} can be reached from other machines and no keys are configured: set "
                "ROLLOUT_GATEWAY_KEYS to the keys that agents will send, make one with `rollout-gateway keys create`, "
                "or listen on 127.0.0.1"
            )
        administers = "" if ring.needs_keys else ", and administer"
        logger.warning("no keys: every program on this machine may make calls%s; no other machine may", administers)
    if settings.admin_port is not None and not is_loopback(settings.admin_host) and not ring.needs_keys:
        raise Exposed(
            f"admin_host {settings.admin_host} can be reached from other machines and nobody needs a key there: set "
            "ROLLOUT_GATEWAY_ADMIN_KEY, or listen on 127.0.0.1"
        )
