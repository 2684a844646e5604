"""A provider that answers everything at once with the same words; run it in a process of its own.

It prints its port and serves until its standard input closes. A request that says HOLD gets the
words, and then nothing until the client leaves.
"""

from __future__ import annotations

import asyncio

from _serving import read_request, serve

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


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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


if __name__ == "__main__":
    asyncio.run(serve(_answer))
