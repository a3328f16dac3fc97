"""Where a backend may not be that is added over HTTP: cloud metadata (link-local), and the gateway itself."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from adapters.schema import Error
from gateway.refusals import InvalidRequest
from gateway.settings import Settings, is_loopback

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


async def check_backend_url(url: str, *, own: Collection[tuple[str, int]]) -> None:
    """Raises InvalidRequest. `own` is where the gateway can be reached: hosts with ports.

    Every address that the name has is looked at, so that 0xA9FEA9FE and a name for it are no way around.
    """
    host, port = host_and_port(url)
    addresses = await _addresses(host, port)
    if any(address.is_link_local for address in addresses):
        raise _refused(f"{host} is a link-local address, where clouds keep their credentials; no backend is there.")
    local = is_loopback(host) or any(address.is_loopback or address.is_unspecified for address in addresses)
    for own_host, own_port in own:
        if port == own_port and (host == own_host or (local and _is_local(own_host))):
            raise _refused("This is the gateway's own address: it would call itself.")


def host_and_port(url: str) -> tuple[str, int]:
    """Of an http or https URL that was checked before."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme.lower()]


def own_addresses(request: Request, settings: Settings) -> list[tuple[str, int]]:
    """Hosts and ports at which this gateway is reached: its listeners, its public URL, and as just now."""
    own = [(settings.host, settings.port)]
    if settings.admin_port is not None:
        own.append((settings.admin_host, settings.admin_port))
    server = request.scope.get("server")
    if server is not None and server[1] is not None:
        own += [(server[0], server[1]), (settings.host, server[1])]
    if settings.public_url is not None:
        own.append(host_and_port(settings.public_url))
    return own


async def _addresses(host: str, port: int) -> list[_Address]:
    """None where the name is unknown; then nothing can be reached there either."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return [_unmapped(str(sockaddr[0])) for *_, sockaddr in found]


def _unmapped(text: str) -> _Address:
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def _is_local(host: str) -> bool:
    """Whether what listens there is also reached over loopback."""
    return is_loopback(host) or host in ("0.0.0.0", "::")  # noqa: S104


def _refused(sentence: str) -> InvalidRequest:
    return InvalidRequest(Error(sentence, code="backend_url_refused", param="url"))
