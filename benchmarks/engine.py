"""An upstream that takes its time, in the shape of vLLM 0.32: `python -m benchmarks.engine PORT [--seconds …]`.

Nothing but asyncio, so that hundreds of calls at a time cost the machine little beside what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Final

from benchmarks import canned

_PAGES: Final = {b"/v1/models": canned.models(), b"/version": b'{"version":"0.32.0"}', b"/health": b"{}"}
_STREAM_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Engine:
    """Each answer lasts so many seconds; a stream has so many tokens, in so many writes."""

    def __init__(self, seconds: float, tokens: int, writes: int) -> None:
        self._seconds = seconds
        self._whole = canned.whole_answer()
        events = canned.streamed_answer(tokens).split(b"\n\n")[:-1]
        size = -(-len(events) // writes)
        self._writes = [b"\n\n".join(events[at : at + size]) + b"\n\n" for at in range(0, len(events), size)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await self._answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        target = head.split(b" ", 2)[1]
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        body = await reader.readexactly(int(length)) if length else b""
        if head.startswith(b"get "):
            _write_whole(writer, _PAGES.get(target, b"{}"))
        elif b'"stream":true' in body:
            await self._stream(writer)
        else:
            await asyncio.sleep(self._seconds)
            _write_whole(writer, self._whole)
        await writer.drain()

    async def _stream(self, writer: asyncio.StreamWriter) -> None:
        writer.write(_STREAM_HEAD)
        for data in self._writes:
            await asyncio.sleep(self._seconds / len(self._writes))
            writer.write(b"%x\r\n%s\r\n" % (len(data), data))
            await writer.drain()
        writer.write(b"0\r\n\r\n")


def _write_whole(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)


async def _run(port: int, engine: Engine) -> None:
    server = await asyncio.start_server(engine.serve, "127.0.0.1", port, backlog=4096, limit=1 << 24)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--tokens", type=int, default=canned.SAMPLED_TOKENS)
    parser.add_argument("--writes", type=int, default=20)
    asked = parser.parse_args()
    asyncio.run(_run(asked.port, Engine(asked.seconds, asked.tokens, asked.writes)))
