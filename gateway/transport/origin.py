"""Where a connection leads: scheme, host and port, and nothing of the path."""

from __future__ import annotations

from typing import NamedTuple

import httpx

_PORTS = {"http": 80, "https": 443}


class Origin(NamedTuple):
    """A tuple, for it is a dictionary's key on each call."""

    scheme: str
    host: str
    port: int


def origin_of(url: httpx.URL) -> Origin:
    """Raises httpx.UnsupportedProtocol where the URL is not an http or https one with a host."""
    scheme = url.scheme
    port = _PORTS.get(scheme)
    if port is None or not url.raw_host:
        raise httpx.UnsupportedProtocol(f"not a URL that can be called: {url}")
    return Origin(scheme, url.raw_host.decode("ascii"), url.port or port)
