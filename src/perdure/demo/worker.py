"""The process that works on the demo's session, made to be killed.

`python -m perdure.demo.worker JOB.json` reads prompts from standard input, a JSON text a line, and
writes what becomes of them to standard output, a JSON object a line. It ends when standard input
is closed: it never outlives the demo, however that ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path

import anyio
import msgspec

from perdure import Runtime
from perdure.demo.clock import FileClock
from perdure.errors import PerdureError
from perdure.history import events as ev
from perdure.session.handle import Session

_INPUT = 0
_OUTPUT = 1


class Job(msgspec.Struct, frozen=True):
    """What to work on. `session` is empty for a new one; its events up to `after` are known."""

    store: str
    directory: str
    clock: str
    session: str = ""
    after: int = 0


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of output: an event of the log, or `ready` with the session, or `idle`."""

    type: str
    session: str = ""
    seq: int = 0
    time: int = 0
    data: msgspec.Raw = msgspec.Raw()


async def work(job: Job) -> None:
    """Answer prompts until standard input is closed."""
    clock = FileClock(Path(job.clock))
    send, receive = anyio.create_memory_object_stream[str](16)
    async with Runtime.open(job.store, clock=clock) as runtime, anyio.create_task_group() as group:
        session = await _session(runtime, job)
        _write(Line("ready", session.id))

        async def read() -> None:
            async for line in _input_lines():
                await send.send(msgspec.json.decode(line, type=str))
            group.cancel_scope.cancel()

        group.start_soon(read)
        after = job.after
        async for prompt in receive:
            await session.prompt(prompt)
            async with aclosing(session.events(after=after, until_idle=True)) as records:
                async for record in records:
                    if isinstance(record, ev.Record):
                        _write(_line(record))
                        after = record.seq
            _write(Line("idle"))


async def _session(runtime: Runtime, job: Job) -> Session:
    if job.session:
        return await runtime.session(job.session)
    return await runtime.create_session(directory=job.directory, title="perdure demo")


async def _input_lines() -> AsyncGenerator[bytes, None]:
    rest = b""
    while True:
        await anyio.wait_readable(_INPUT)
        piece = os.read(_INPUT, 65536)
        if not piece:
            return
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line


def _line(record: ev.Record) -> Line:
    data = msgspec.Raw(ev.encode(record.data))
    return Line(record.type, seq=record.seq, time=record.time, data=data)


def _write(line: Line) -> None:
    # When nobody listens any more, standard input is closed too, which ends all this.
    with suppress(BrokenPipeError):
        data = memoryview(msgspec.json.encode(line) + b"\n")
        while data:
            data = data[os.write(_OUTPUT, data) :]


def main(path: str) -> int:
    """Do the job that a file describes; return the exit code."""
    job = msgspec.json.decode(Path(path).read_bytes(), type=Job)
    failed = False
    try:
        anyio.run(work, job)
    except* PerdureError as errors:
        print(*errors.exceptions, file=sys.stderr)
        failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
