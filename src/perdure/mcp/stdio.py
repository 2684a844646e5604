"""A server that is a program on this machine: its messages are lines on its input and output."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    jsonrpc_message_adapter,
)

from perdure.errors import ToolError
from perdure.mcp.tail import Tail
from perdure.tools.supervised import ENDING, start_guarded

LARGEST_MESSAGE = 16 * 1024 * 1024
_BY_ITSELF = 1.0  # seconds for a server to end when its input ends

_Inbox = MemoryObjectSendStream[SessionMessage | Exception]
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)


@asynccontextmanager
async def stdio(
    command: str, args: tuple[str, ...], directory: Path, env: Mapping[str, str], tail: Tail
) -> AsyncGenerator[TransportStreams]:
    """Run a server under the guard, so that it never outlives this process; give its streams.

    Leaving it ends the program: its input ends, then SIGTERM, then SIGKILL to all that descends
    from it. Lines that are no messages, and what it writes to its standard error, go to `tail`. A
    message over 16 MiB ends the stream. Raises ToolError where it cannot be started.
    """
    process, lifeline = await _start(command, args, directory, env)
    inbox, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outbox = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(_read, process.stdout, inbox, tail)
            group.start_soon(_write, process.stdin, outbox)
            group.start_soon(_note, process.stderr, tail)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process, lifeline)
                group.cancel_scope.cancel()
    finally:
        os.close(lifeline)
        for stream in (inbox, incoming, outgoing, outbox):
            stream.close()
        with anyio.CancelScope(shield=True), suppress(*_GONE):
            await process.aclose()


async def _start(
    command: str, args: tuple[str, ...], directory: Path, env: Mapping[str, str]
) -> tuple[Process, int]:
    """Return the guard's process and the descriptor whose end would end it."""
    path = env.get("PATH")
    program = shutil.which(str(directory / command) if "/" in command else command, path=path)
    if program is None or not Path(program).is_absolute():
        raise ToolError(f"the program {command} was not found")
    reading, lifeline = os.pipe()
    try:
        return await start_guarded([program, *args], directory, env, reading), lifeline
    except (OSError, ValueError) as error:
        os.close(lifeline)
        raise ToolError(f"the program {command} cannot be started: {error}") from error
    finally:
        os.close(reading)


async def _read(stream: ByteReceiveStream | None, inbox: _Inbox, tail: Tail) -> None:
    assert stream is not None  # noqa: S101 - for the type checker: it is a pipe
    rest = bytearray()
    with inbox, suppress(*_GONE):
        async for piece in stream:
            rest += piece
            if b"\n" in piece:
                *lines, last = rest.split(b"\n")
                rest = last
                for line in lines:
                    await _deliver(bytes(line), inbox, tail)
            if len(rest) > LARGEST_MESSAGE:
                tail.note(b"[it sent a message over 16 MiB, and was ended]")
                return


async def _deliver(line: bytes, inbox: _Inbox, tail: Tail) -> None:
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        message = _mended(line)
    if message is None:
        tail.note(line)  # programs print on their output what does not belong there
    else:
        await inbox.send(SessionMessage(message))


def _mended(line: bytes) -> JSONRPCMessage | None:
    """Return the message of a line that the SDK does not take, or None where it is none.

    Halves of characters, which programs leave where they cut text, become question marks. Another
    answer that is wrong becomes an error, since whoever asked would wait for it in vain.
    """
    try:
        text = json.dumps(json.loads(line.decode("utf-8", "replace")), ensure_ascii=False)
        whole = json.loads(text.encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    try:
        return jsonrpc_message_adapter.validate_python(whole, by_name=False)
    except ValueError:
        if not isinstance(whole, dict):
            return None
    fields = cast("dict[str, Any]", whole)
    answered = fields.get("id")
    if "method" in fields or not isinstance(answered, int | str):
        return None
    wrong = ErrorData(code=PARSE_ERROR, message="its answer is no message of the protocol")
    return JSONRPCError(jsonrpc="2.0", id=answered, error=wrong)


async def _write(
    stream: ByteSendStream | None, outbox: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    assert stream is not None  # noqa: S101 - for the type checker: it is a pipe
    # What cannot be sent shows in the end of what the program says.
    with suppress(*_GONE, OSError):
        async for item in outbox:
            text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stream.send(text.encode("utf-8", "replace") + b"\n")


async def _note(stream: ByteReceiveStream | None, tail: Tail) -> None:
    assert stream is not None  # noqa: S101 - for the type checker: it is a pipe
    with suppress(*_GONE):
        async for piece in stream:
            tail.feed(piece)


async def _end(process: Process, lifeline: int) -> None:
    if process.stdin is not None:
        with suppress(*_GONE, OSError):
            await process.stdin.aclose()
    with anyio.move_on_after(_BY_ITSELF):
        await process.wait()
    if process.returncode is None:
        with suppress(OSError):
            os.write(lifeline, b"x")
        with anyio.move_on_after(ENDING):
            await process.wait()
    if process.returncode is None:
        process.kill()
