"""How a scripted answer leaves: frame by frame over ASGI, with the faults that were asked for."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from dataclasses import dataclass

from starlette.types import Scope, Send

from adapters.scripts.script import Answer
from gateway.scripted.call import Call
from gateway.scripted.faults import Ending, Fault

# On, after no seconds: closing the socket sends a reset.
_LINGER_NONE = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Sending:
    call: Call
    answer: Answer
    fault: Fault
    scope: Scope
    send: Send
    gone: asyncio.Future[None]
    """Done when the caller has closed the connection."""

    async def run(self) -> None:
        fault = self.fault
        if await self._left(fault.delay):
            return
        if fault.raw is not None:
            self._transport.write(fault.raw)
        elif not fault.silent:
            await self._send()
        if not self.gone.done() and not (fault.ends_early and fault.ending == "hung"):
            self.call.finished = time.monotonic()
        if fault.ends_early and fault.ending != "clean":
            await self._end(fault.ending)

    async def _send(self) -> None:
        answer, fault = self.fault.instead_of(self.answer), self.fault
        self.call.status = answer.status
        await self.send({"type": "http.response.start", "status": answer.status, "headers": self._headers(answer)})
        for number, (data, frame) in enumerate(fault.writes(answer.frames)):
            if await self._left(fault.pause if number else 0.0):
                return
            await self.send({"type": "http.response.body", "body": data, "more_body": True})
            self.call.told += frame.told if frame is not None else ()
        if not fault.ends_early or fault.ending == "clean":
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _left(self, seconds: float) -> bool:
        """Waits so long, or until the caller has gone: a server that generates notices that at once."""
        if seconds:
            await asyncio.wait([self.gone], timeout=seconds)
        return self.gone.done()

    def _headers(self, answer: Answer) -> list[tuple[bytes, bytes]]:
        headers = {"content-type": answer.content_type, "server": "uvicorn"}
        if not self.fault.ends_early and "stream" not in answer.content_type:
            headers["content-length"] = str(len(answer.body))
        headers |= {name.lower(): value for name, value in self.fault.headers.items()}
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]

    @property
    def _transport(self) -> asyncio.Transport:
        transport: asyncio.Transport = self.scope["state"]["transport"]
        return transport

    async def _end(self, ending: Ending) -> None:
        """End the connection, and wait for the caller to have gone, so that the server adds nothing of its own."""
        if ending == "reset":
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            self._transport.abort()
        elif ending == "closed":
            self._transport.close()
        await self.gone
