"""A provider that answers everything at once with the same words; run it in a process of its own.

It prints its port and serves until its standard input closes. A request that says HOLD gets the
words, and then nothing until the client leaves.
"""

from __future__ import annotations

import asyncio
import sys

HOLD = "do not end your answer"
WORDS = "The build fails because a comma is missing. " * 9

_CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % WORDS.encode()
_END = (
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":1000,"completion_tokens":100}}\n\ndata: [DONE]\n\n'
)
_BODY = _CHUNK + _END
RESPONSE = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(_BODY)
) + _BODY


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Return head and body of the next request, when all of it has come."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    )
    return head, await reader.readexactly(length)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            _, body = await read_request(reader)
            if HOLD.encode() in body:
                writer.write(RESPONSE[: -len(_END)])
                await reader.read()
                return
            writer.write(RESPONSE)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main() -> None:
    """Serve until standard input closes."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0, limit=1 << 26)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
