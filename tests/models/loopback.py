"""A very small HTTP server on loopback that sends given bytes at given moments."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import anyio
from anyio.abc import SocketAttribute, SocketStream

Act = bytes | float | Literal["hold", "leave", "next"] | Callable[[SocketStream], Awaitable[object]]
"""Bytes to send, seconds to wait, or: keep silent until the client leaves; leave at once; read the
next request on the same connection; do something with it."""


class Loopback:
    """What a server knows: where it is, its connections and requests, whether a client left."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.connections = 0
        self.requests: list[bytes] = []
        self.left = anyio.Event()


@asynccontextmanager
async def serving(
    acts: Sequence[Act] | Callable[[bytes], Sequence[Act]],
) -> AsyncGenerator[Loopback]:
    """Serve every connection with the same acts, or with those that a function gives."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    server = Loopback(listener.extra(SocketAttribute.local_port))

    async def serve(stream: SocketStream) -> None:
        server.connections += 1
        async with stream:
            try:
                request = await _request(stream, server)
                await _play(stream, server, acts(request) if callable(acts) else acts)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream):
                server.left.set()

    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield server
        group.cancel_scope.cancel()


async def _request(stream: SocketStream, server: Loopback) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.partition(b":")[2])
    while len(body) < length:
        body += await stream.receive()
    server.requests.append(head + b"\r\n\r\n" + body)
    return server.requests[-1]


async def _play(stream: SocketStream, server: Loopback, acts: Sequence[Act]) -> None:
    for act in acts:
        match act:
            case bytes():
                await stream.send(act)
            case int() | float():
                await anyio.sleep(act)
            case "next":
                await _request(stream, server)
            case "hold":
                await stream.receive()
            case "leave":
                return
            case _:
                await act(stream)


def head(status: int = 200, content_type: str = "text/event-stream", **more: str) -> bytes:
    """Return the head of a response that ends where the connection does."""
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Type: {content_type}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in more.items()]
    return "\r\n".join([*lines, "", ""]).encode()
