"""The demo's side of a worker process."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from perdure.demo.worker import Job, Line
from perdure.demo.world import World
from perdure.errors import PerdureError
from perdure.history import events as ev

_LONGEST_LINE = 4 * 1024 * 1024
_TO_END = 3.0
"""Seconds that a worker has to settle what runs, once its input is closed."""


class Worker:
    """A process that works on the session. `session` is the id of that."""

    def __init__(self, process: Process, errors: Path) -> None:
        if process.stdout is None:
            raise ValueError("the output of the process is not piped")
        self.pid = process.pid
        self.session = ""
        self._process = process
        self._errors = errors
        self._output = BufferedByteReceiveStream(process.stdout)

    async def ready(self) -> None:
        """Wait until the worker has the session."""
        self.session = (await self._read()).session

    async def prompt(self, text: str) -> AsyncGenerator[ev.Record, None]:
        """Admit a Prompt; yield every event of the session until it is idle, or until `kill`."""
        if self._process.stdin is None:
            raise ValueError("the input of the process is not piped")
        try:
            await self._process.stdin.send(msgspec.json.encode(text) + b"\n")
        except anyio.BrokenResourceError as error:
            raise self._ended_early() from error
        while self._process.returncode is None:
            line = await self._read()
            if line.type == "idle":
                return
            yield ev.Record(line.seq, line.time, ev.decode(line.type, line.data))

    async def kill(self) -> bool:
        """Do what `kill -9` does and wait for the end; return whether it ended by that."""
        self._process.send_signal(signal.SIGKILL)
        return await self._process.wait() == -signal.SIGKILL

    async def end(self) -> None:
        """Let the worker end by itself, or kill it."""
        if self._process.returncode is None and self._process.stdin is not None:
            await self._process.stdin.aclose()
            with anyio.move_on_after(_TO_END):
                await self._process.wait()
        if self._process.returncode is None:
            await self.kill()
        await self._process.aclose()

    async def _read(self) -> Line:
        try:
            line = await self._output.receive_until(b"\n", _LONGEST_LINE)
        except (anyio.EndOfStream, anyio.IncompleteRead) as error:
            raise self._ended_early() from error
        return msgspec.json.decode(line, type=Line)

    def _ended_early(self) -> PerdureError:
        said = self._errors.read_text(errors="replace").strip().splitlines()
        reason = said[-1] if said else "it gave no reason"
        return PerdureError(f"worker process {self.pid} ended too early: {reason}")


@asynccontextmanager
async def start_worker(world: World, session: str, after: int) -> AsyncGenerator[Worker, None]:
    """Start a process that works on a session, a new one where the id is empty.

    Events up to `after` are not told again. The process is gone when the context is left.
    """
    job = Job(str(world.store), str(world.project), str(world.clock_file), session, after)
    file, errors = world.root / "job.json", world.root / "worker.log"
    file.write_bytes(msgspec.json.encode(job))
    worker = Worker(await _started(file, errors, world.environment), errors)
    try:
        await worker.ready()
        yield worker
    finally:
        with anyio.CancelScope(shield=True):
            await worker.end()


async def _started(job: Path, errors: Path, environment: dict[str, str]) -> Process:
    # Safe path: a file in the user's present directory must not stand in for one of our modules.
    command = [sys.executable, "-P", "-m", "perdure.demo.worker", str(job)]
    started: list[Process] = []
    # Cancelled half way, nobody would hold the new process.
    with errors.open("wb") as log, anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,  # Ctrl-C in a terminal is for the demo, which ends the worker
        )
        started.append(process)
    return started[0]
