"""A process that works on a session, made to be killed: `worker.py JOB.json`.

The job names the store, the configuration, the session (created when empty), the prompt, and a
file in which the tools write down their effects.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec

from perdure import Runtime, Tool, ToolContext
from perdure.history.events import Delivery


class Job(msgspec.Struct):
    """What the process does."""

    store: str
    directory: str
    config: dict[str, Any]
    environ: dict[str, str]
    prompt: str
    effects: str
    session: str = ""
    prompt_id: str | None = None
    idempotent: bool = False
    delivery: Delivery = "steer"
    images: tuple[str, ...] = ()


class EffectArguments(msgspec.Struct):
    """What to write down, and for how long to go on after it."""

    name: str
    seconds: float = 0.0


async def main(job: Job) -> None:
    async def effect(arguments: EffectArguments, context: ToolContext) -> str:
        async with await anyio.open_file(job.effects, "a") as file:
            await file.write(f"{arguments.name} {context.idempotency_key}\n")
        await anyio.sleep(arguments.seconds)
        return f"{arguments.name} is done"

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
        if job.session:
            session = await runtime.session(job.session)
        else:
            session = await runtime.create_session(directory=job.directory)
        print(session.id, flush=True)
        admission = await session.prompt(
            job.prompt, id=job.prompt_id, delivery=job.delivery, images=job.images
        )
        async for record in session.events(after=admission.seq - 1, until_idle=True):
            print(record.type, flush=True)


if __name__ == "__main__":
    anyio.run(main, msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Job))
