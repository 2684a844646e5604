"""Just enough of an HTTP/1.1 server to play responses, broken ones included.

It answers one request after the other on a connection, and while it answers it watches whether the
client is still there.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import anyio
import h11
import msgspec
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from msgspec.structs import replace

from perdure.testing.stream import Frame, Pause, Signal, Stop
from perdure.testing.wire import Response, Step

_POLL = 0.002
"""Seconds between two looks at a signal, which may belong to another thread or event loop."""

_GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)

Outcome = Literal["whole", "stopped", "abandoned"]


class HttpRequest(msgspec.Struct, frozen=True):
    """A request as it came over the wire; header names are lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Respond = Callable[[HttpRequest], Response]

Left = Callable[[Response], None]
"""Learn that the client went away before the whole response was sent."""


@asynccontextmanager
async def serving(respond: Respond, left: Left) -> AsyncGenerator[int]:
    """Serve on a free port of 127.0.0.1 and yield the port; leaving closes every connection."""

    async def serve_one(stream: SocketStream) -> None:
        async with stream:
            await _Connection(stream, respond, left).serve()

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve_one, tasks)
        yield listener.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio, not Django
        tasks.cancel_scope.cancel()


class _Connection:
    """One connection of a client."""

    def __init__(self, stream: SocketStream, respond: Respond, left: Left) -> None:
        self._stream = stream
        self._respond = respond
        self._left = left
        self._http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        """Answer requests until either side has had enough."""
        while request := await self._read():
            response = self._respond(request)
            if request.method == "HEAD":
                response = replace(response, steps=())
            outcome = await self._answer(response)
            if outcome == "abandoned":
                self._left(response)
            if outcome != "whole" or self._http.our_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _read(self) -> HttpRequest | None:
        """Return the next request; None when the client hangs up or speaks no HTTP."""
        try:
            return await self._parse()
        except (h11.RemoteProtocolError, *_GONE):
            return None

    async def _parse(self) -> HttpRequest | None:
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                await self._feed()
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
                target = head.target.decode("latin-1")
                return HttpRequest(head.method.decode(), target, headers, bytes(body))
            else:
                return None

    async def _feed(self) -> None:
        try:
            self._http.receive_data(await self._stream.receive())
        except anyio.EndOfStream:
            self._http.receive_data(b"")

    async def _answer(self, response: Response) -> Outcome:
        outcome: Outcome = "abandoned"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, tasks)
            try:
                outcome = await self._play(response)
            except _GONE:
                outcome = "abandoned"
            tasks.cancel_scope.cancel()
        return outcome

    async def _watch(self, tasks: TaskGroup) -> None:
        """Stop answering when the client goes away; keep what it sends early for later."""
        try:
            while True:
                self._http.receive_data(await self._stream.receive())
        except _GONE:
            tasks.cancel_scope.cancel()

    async def _play(self, response: Response) -> Outcome:
        for pause in response.before:
            await _wait(pause)
        if response.status is None:
            await self._reset()
            return "stopped"
        await self._send(_head(response.status, response.headers, _length(response)))
        for step in response.steps[:-1]:
            if not await self._take(step):
                return "stopped"
        return await self._finish(response.steps[-1:])

    async def _take(self, step: Step) -> bool:
        """Do one step; return False when it was the last."""
        if isinstance(step, Pause):
            await _wait(step)
        elif isinstance(step, Frame):
            await self._send(h11.Data(step.data))
        elif step.clean:
            await self._send(h11.EndOfMessage())
        return not isinstance(step, Stop)

    async def _finish(self, last: Sequence[Step]) -> Outcome:
        """Send the last frame and the end of the body at once.

        A client may hang up as soon as it has read the last frame, and has not left early then.
        """
        if last and isinstance(last[0], Frame):
            await self._send(h11.Data(last[0].data), h11.EndOfMessage())
        elif last and not await self._take(last[0]):
            return "stopped"
        else:
            await self._send(h11.EndOfMessage())
        return "whole"

    async def _send(self, *events: h11.Event) -> None:
        data = b"".join(self._http.send(event) or b"" for event in events)
        if data:
            await self._stream.send(data)

    async def _reset(self) -> None:
        """Close so that the client sees a reset and not an orderly end."""
        linger = struct.pack("ii", 1, 0)
        raw = self._stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - of anyio, not Django
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        await anyio.aclose_forcefully(self._stream)


def _head(status: int, headers: Sequence[tuple[str, str]], length: int | None) -> h11.Response:
    announced = [] if length is None else [("content-length", str(length))]
    return h11.Response(status_code=status, headers=[*headers, *announced])


def _length(response: Response) -> int | None:
    if not response.whole:
        return None
    return sum(len(step.data) for step in response.steps if isinstance(step, Frame))


async def _wait(pause: Pause) -> None:
    if pause.until is not None:
        await _until(pause.until)
    elif pause.seconds is not None:
        await anyio.sleep(pause.seconds)
    else:
        await anyio.sleep_forever()


async def _until(signal: Signal) -> None:
    while not signal.is_set():  # noqa: ASYNC110 - all kinds of events have this in common
        await anyio.sleep(_POLL)
