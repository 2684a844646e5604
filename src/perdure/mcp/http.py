"""A server that answers over streamable HTTP."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx2
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client

from perdure.mcp.tail import Tail

LARGEST_ANSWER = 16 * 1024 * 1024
_QUICK = 30.0  # seconds to connect and to send
_SILENCE = 300.0  # seconds without a byte of an answer


@asynccontextmanager
async def http(url: str, token: str | None, tail: Tail) -> AsyncGenerator[TransportStreams]:
    """Give the streams of a server at an address; `token` goes along with each request.

    The status of what the server refuses goes to `tail`, since the SDK does not say it.
    """
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = httpx2.Timeout(_QUICK, read=_SILENCE)
    hooks = {"response": [partial(_look, tail)]}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=timeout, event_hooks=hooks) as client,
        streamable_http_client(url, http_client=client) as streams,
    ):
        yield streams


async def _look(tail: Tail, response: httpx2.Response) -> None:
    if response.status_code >= 400:
        tail.note(f"HTTP {response.status_code} {response.reason_phrase}".encode())
    # A stream of events is bounded by the SDK, event by event.
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        response.stream = _Bounded(response)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, response: httpx2.Response) -> None:
        self._inner = response.stream
        self._request = response.request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        assert isinstance(self._inner, httpx2.AsyncByteStream)  # noqa: S101 - the client is async
        async for piece in self._inner:
            size += len(piece)
            if size > LARGEST_ANSWER:
                raise httpx2.ReadError("the answer is over 16 MiB", request=self._request)
            yield piece

    async def aclose(self) -> None:
        assert isinstance(self._inner, httpx2.AsyncByteStream)  # noqa: S101 - the client is async
        await self._inner.aclose()
