"""Tasks that run beside a block of code."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def background() -> AsyncGenerator[TaskGroup]:
    """Give a task group that is cancelled on leaving; what is raised within comes out alone."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            yield group
        except Exception as error:  # noqa: BLE001 - raised again, outside of the group
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure
