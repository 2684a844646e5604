"""A program that is started again whenever it dies: `crash_worker.py JOB.json`.

Each start is a process of its own, forked from one that has imported everything. It prints one line
for each: the exit status. It ends with the first that ends well, or after `most` of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec

from perdure import Runtime, Tool, ToolContext
from perdure.history.events import StepStarted
from tests.session.forking import forked
from tests.session.worker import EffectArguments

DIED = 9


class CrashJob(msgspec.Struct):
    """What the program works on, and what ends it: a tool, or a request that is on its way."""

    store: str
    directory: str
    config: dict[str, Any]
    environ: dict[str, str]
    effects: str
    ended_by: Literal["tool", "request", "nothing"]
    idempotent: bool = False
    most: int = 30


async def main(job: CrashJob) -> None:
    async def effect(arguments: EffectArguments, context: ToolContext) -> str:
        async with await anyio.open_file(job.effects, "a") as file:
            await file.write(f"{context.idempotency_key}\n")
        if job.ended_by == "tool":
            os._exit(DIED)
        return "done"

    tool = Tool(
        name="effect",
        description="Have an effect.",
        arguments=EffectArguments,
        run=effect,
        idempotent=job.idempotent,
    )
    async with Runtime.open(
        job.store, config=job.config, environ=job.environ, tools=[tool]
    ) as runtime:
        rows = await runtime.sessions()
        after = rows[0].last_seq if rows else 0
        if rows:
            session = await runtime.session(rows[0].id)
            await runtime.recover()
        else:
            session = await runtime.create_session(directory=job.directory)
            await session.prompt("Do it.")
        async for record in session.events(after=after, until_idle=True):
            if job.ended_by == "request" and isinstance(record.data, StepStarted):
                os._exit(DIED)


def run_again_and_again(job: CrashJob) -> None:
    for _ in range(job.most):
        status = os.waitstatus_to_exitcode(os.waitpid(forked(main, job), 0)[1])
        print(status, flush=True)
        if status == 0:
            return


if __name__ == "__main__":
    run_again_and_again(msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=CrashJob))
