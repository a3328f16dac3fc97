"""A fault proxy: passes bytes between a gateway and what it needs, until it is told to do that badly."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

_LINGER_NONE: Final = struct.pack("ii", 1, 0)


@dataclass(slots=True)
class FaultProxy:
    """All that goes to `target` on loopback. Its faults hold for open connections and new ones."""

    target: int
    port: int = 0
    delay: float = 0.0
    """Before each piece, each way, in seconds."""
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    taking: bool = True
    """Whether connections are taken; else each is reset as it comes."""
    _pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = field(default_factory=set)

    @property
    def connections(self) -> int:
        return len(self._pairs)

    def stall(self) -> None:
        """Nothing passes any more, and nobody is told."""
        self.flowing.clear()

    def flow(self) -> None:
        self.flowing.set()

    def cut(self, *, reset: bool = False) -> None:
        """Close every connection, both ways, with a FIN or with a reset."""
        for pair in [*self._pairs]:
            for writer in pair:
                if reset:
                    _reset(writer)
                else:
                    writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.taking:
            _reset(writer)
            return
        try:
            onward, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            _reset(writer)
            return
        pair = (writer, back)
        self._pairs.add(pair)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(reader, back))
                both.create_task(self._pass(onward, writer))
        except* OSError:
            pass
        finally:
            self._pairs.discard(pair)
            for each in pair:
                each.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            await self.flowing.wait()
            if self.delay:
                await asyncio.sleep(self.delay)
            writer.write(data)
            await writer.drain()
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
    writer.transport.abort()


@asynccontextmanager
async def between(target: int) -> AsyncIterator[FaultProxy]:
    """A proxy to a port of loopback, on a port of its own."""
    proxy = FaultProxy(target)
    proxy.flow()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        proxy.taking, proxy.delay = False, 0.0
        proxy.flow()
        server.close()
        proxy.cut(reset=True)
        while proxy.connections:
            await asyncio.sleep(0.005)
