"""HTTP/1.1 towards backends, on an asyncio protocol and httptools: what a pass-through costs the least with."""

from gateway.transport.transport import HttpTransport

__all__ = ["HttpTransport"]
