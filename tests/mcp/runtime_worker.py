"""A process with a runtime, made to be killed: `runtime_worker.py JOB.json`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec

from perdure import Runtime
from perdure.mcp import Pace, servers


class Job(msgspec.Struct):
    """What the process does."""

    store: str
    directory: str
    config: dict[str, Any]
    environ: dict[str, str]


async def main(job: Job) -> None:
    # On a busy machine the server, or what speaks to it, may take longer to start than usual.
    setattr(servers, "DEFAULT_PACE", Pace(join=60, call=60))  # noqa: B010 - a constant otherwise
    async with Runtime.open(job.store, config=job.config, environ=job.environ) as runtime:
        session = await runtime.create_session(directory=job.directory)
        await session.prompt("Go.")
        await session.wait()


if __name__ == "__main__":
    anyio.run(main, msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Job))
