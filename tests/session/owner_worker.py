"""A process beside others on one database: `owner_worker.py JOB.json`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec

from perdure import Runtime, Session, Tool, ToolContext
from perdure.clock import SystemClock
from perdure.history.events import Delivery
from perdure.store.sqlite import open_sqlite
from tests.session.worker import EffectArguments


class OwnerJob(msgspec.Struct):
    """What the process prompts: one session many times, or, without one, many new sessions."""

    name: str
    store: str
    directory: str
    config: dict[str, Any]
    environ: dict[str, str]
    effects: str
    session: str = ""
    prompts: int = 1
    sessions: int = 0
    delivery: Delivery = "queue"
    lease: float = 10.0


async def main(job: OwnerJob) -> None:
    async def effect(arguments: EffectArguments, context: ToolContext) -> str:
        async with await anyio.open_file(job.effects, "a") as file:
            await file.write(f"{job.name} {arguments.name}\n")
        print("working", flush=True)
        await anyio.sleep(arguments.seconds)
        return "done"

    tool = Tool(name="effect", description="Work.", arguments=EffectArguments, run=effect)
    clock = SystemClock()
    async with (
        await open_sqlite(job.store, clock=clock, lease_seconds=job.lease) as store,
        Runtime.open(store, config=job.config, environ=job.environ, tools=[tool]) as runtime,
    ):
        print("ready", flush=True)
        sys.stdin.readline()
        if job.session:
            await talk(await runtime.session(job.session), job)
        async with anyio.create_task_group() as group:
            for number in range(job.sessions):
                group.start_soon(begin, runtime, job, f"{job.name}-{number}")


async def begin(runtime: Runtime, job: OwnerJob, title: str) -> None:
    await talk(await runtime.create_session(directory=job.directory, title=title), job)


async def talk(session: Session, job: OwnerJob) -> None:
    for number in range(job.prompts):
        await session.prompt(f"{job.name} {number}", delivery=job.delivery)
    await session.wait()


if __name__ == "__main__":
    anyio.run(main, msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=OwnerJob))
