"""What a URL says: where to connect, and what to ask for there."""

from __future__ import annotations

from typing import NamedTuple

import httpx

_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """A tuple, for it is a dictionary's key on each call."""

    scheme: str
    host: str
    port: int


class Target(NamedTuple):
    """A URL read once: there are as many as backends have endpoints, and reading one takes longer than asking."""

    origin: Origin
    authority: bytes
    """As the `host` header has it."""
    path: bytes
    """With the query."""


def target_of(url: httpx.URL) -> Target:
    """Raises httpx.UnsupportedProtocol where the URL is not an http or https one with a host."""
    scheme = url.scheme
    port = _PORTS.get(scheme)
    if port is None or not url.raw_host:
        raise httpx.UnsupportedProtocol(f"not a URL that can be called: {url}")
    return Target(Origin(scheme, url.raw_host.decode("ascii"), url.port or port), url.netloc, url.raw_path)
