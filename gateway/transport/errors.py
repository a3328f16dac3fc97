"""The one failure that a transport looks at itself; every other is one of httpx's own."""

from __future__ import annotations

import httpx


class ClosedUnheard(httpx.ReadError):
    """The server closed the connection after the request was written and before a byte came back."""
