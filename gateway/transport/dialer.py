"""New connections: names resolved, IPv6 and IPv4 raced, TLS with the system's certificates."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import cached_property, partial
from itertools import zip_longest

import httpx

from gateway.transport.connection import Connection
from gateway.transport.race import first
from gateway.transport.target import Origin

# RFC 8305 §5: how long one address may keep the next waiting.
_HEAD_START = 0.25

Address = tuple[str, int]


class Dialer:
    """`tls` replaces the context that checks a server against the system's certificates."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._given_tls = tls
        self._asking: dict[Origin, asyncio.Task[list[Address]]] = {}

    async def dial(self, origin: Origin, make: Callable[[], Connection], seconds: float | None) -> Connection:
        """Raises httpx.ConnectTimeout or httpx.ConnectError: nothing of a request was sent."""
        try:
            async with asyncio.timeout(seconds):
                return await self._dial(origin, make)
        except TimeoutError as exc:
            raise httpx.ConnectTimeout(f"no connection to {origin.host}:{origin.port} in time") from exc
        except (OSError, UnicodeError) as exc:
            raise httpx.ConnectError(str(exc) or type(exc).__name__) from exc

    def close(self) -> None:
        for asking in self._asking.values():
            asking.cancel()

    async def _dial(self, origin: Origin, make: Callable[[], Connection]) -> Connection:
        addresses = await self._addresses(origin)
        if len(addresses) == 1:
            return await self._to(addresses[0], origin, make)
        return await first([partial(self._to, each, origin, make) for each in addresses], _HEAD_START, Connection.cut)

    async def _to(self, address: Address, origin: Origin, make: Callable[[], Connection]) -> Connection:
        # By address and not by `sock=`: there a cancelled uvloop 0.23 closes the descriptor that the socket closes too.
        tls = self._tls if origin.scheme == "https" else None
        name = origin.host if tls is not None else None
        loop = asyncio.get_running_loop()
        transport, connection = await loop.create_connection(make, *address, ssl=tls, server_hostname=name)
        try:
            # A model may think for minutes; a middlebox that forgot the connection is found out all the same.
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:
            connection.cut()
            raise
        return connection

    async def _addresses(self, origin: Origin) -> list[Address]:
        """Asked once for all who wait for it: hundreds of rollouts begin at the same moment."""
        asking = self._asking.get(origin)
        if asking is None:
            asking = self._asking[origin] = asyncio.get_running_loop().create_task(_resolve(origin))
            asking.add_done_callback(lambda done: self._asked(origin, done))
        return await asyncio.shield(asking)

    def _asked(self, origin: Origin, done: asyncio.Task[list[Address]]) -> None:
        del self._asking[origin]
        if not done.cancelled():
            done.exception()  # Taken note of, for everyone who asked may have given up.

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        """Made at the first https call: reading the certificates takes some 20 ms."""
        if self._given_tls is not None:
            return self._given_tls
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


async def _resolve(origin: Origin) -> list[Address]:
    """One IPv6 address, one IPv4 address and so on, beginning with the family that the system prefers."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    families: dict[int, list[Address]] = {}
    for family, _, _, _, address in found:
        families.setdefault(family, []).append((str(address[0]), origin.port))
    return [address for turn in zip_longest(*families.values()) for address in turn if address is not None]
