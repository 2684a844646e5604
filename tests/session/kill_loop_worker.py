"""Processes that work on one database until they are killed: `kill_loop_worker.py`.

It reads one job a line from standard input, forks a process for it that has everything imported
already, and prints the process's id.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec

from perdure import Runtime, Tool, ToolContext
from perdure.clock import SystemClock
from perdure.history import events as ev
from perdure.session.attempts import RetryPolicy
from perdure.store.contract import Guard, Lease, SessionRow, Store
from perdure.store.sqlite import open_sqlite
from perdure.testing import CrashingStore
from tests.session.forking import forked, jobs


class Sent(msgspec.Struct):
    """A prompt to send, after a pause in seconds."""

    session: str
    prompt: str
    delivery: ev.Delivery = "steer"
    pause: float = 0.0
    images: tuple[str, ...] = ()


class LoopJob(msgspec.Struct):
    """What one process does; `to_the_end` lets it end when all sessions are idle."""

    root: str
    config: dict[str, Any]
    environ: dict[str, str]
    lease: float
    sent: list[Sent] = []
    fenced: bool = True
    to_the_end: bool = False

    @property
    def path(self) -> Path:
        return Path(self.root)


class Effect(msgspec.Struct):
    """For how long to go on after the effect, in seconds, or until there is a file `gate`."""

    seconds: float = 0.0
    gated: bool = False


class Unfenced(CrashingStore):
    """A store without its fence: who has lost a session goes on, and does not learn of it."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._claimed: dict[str, int] = {}

    async def claim(self, session: str, owner: str) -> Lease | None:
        lease = await super().claim(session, owner)
        if lease is not None:
            self._claimed[session] = lease.token
        return lease

    async def session(self, session: str) -> SessionRow:
        row = await super().session(session)
        return msgspec.structs.replace(row, token=self._claimed.get(session, row.token))

    async def append(
        self,
        session: str,
        events: Sequence[ev.Event],
        *,
        guard: Guard | None = None,
        release: Lease | None = None,
    ) -> Sequence[ev.Record]:
        if guard is not None:
            guard = msgspec.structs.replace(guard, token=None)
        return await super().append(session, events, guard=guard, release=release)


def tools(job: LoopJob) -> list[Tool[Effect]]:
    async def run(arguments: Effect, context: ToolContext) -> str:
        note(job.path / "effects.txt", context.idempotency_key)
        if arguments.gated:
            while not (job.path / "gate").exists():
                await anyio.sleep(0.01)
        await anyio.sleep(arguments.seconds)
        return "done"

    return [
        Tool(name=name, description="Act.", arguments=Effect, run=run, idempotent=name == "again")
        for name in ("effect", "again")
    ]


def note(file: Path, line: str) -> None:
    """Append a line in one write, so that a process that dies leaves a whole one or none."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


async def main(job: LoopJob) -> None:
    os.chdir(job.root)
    path = job.path / "sessions.db"
    opened = await open_sqlite(path, clock=SystemClock(), lease_seconds=job.lease)
    store = CrashingStore(opened) if job.fenced else Unfenced(opened)
    async with Runtime.open(
        store,
        config=job.config,
        environ=job.environ,
        tools=tools(job),
        retry=RetryPolicy(base=0.001),
        titles=True,
    ) as runtime:
        await runtime.recover()
        for sent in job.sent:
            await anyio.sleep(sent.pause)
            session = await runtime.session(sent.session)
            await session.prompt(
                "Go on.", id=sent.prompt, delivery=sent.delivery, images=sent.images
            )
            note(job.path / "acknowledged.txt", sent.prompt)
        if not job.to_the_end:
            await anyio.sleep_forever()
        for row in await runtime.sessions():
            await (await runtime.session(row.id)).wait()
    await store.close()


def collect() -> None:
    """Wait for the processes that were killed."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    for each in jobs(LoopJob):
        collect()
        print(forked(main, each), flush=True)
