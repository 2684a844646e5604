"""The facts of a moment as one text: what a rebuilt system prompt would say."""

from __future__ import annotations

import anyio.to_thread

from perdure.config.location import find_project
from perdure.context import SystemContext
from perdure.demo.world import World
from perdure.instructions import InstructionService
from perdure.sources import convention, date, environment
from perdure.tools.shell import shell_program


class Facts:
    """Renders the System Context of the demo's session anew, as a new session would be told it."""

    def __init__(self, world: World, marker: str) -> None:
        location = find_project(world.project)
        self._builtin = (
            convention(marker),
            environment(location, shell=shell_program()),
            date(world.clock),
        )
        self._files = InstructionService(world.configuration, location)

    async def now(self) -> str:
        """Return the text as it would be now."""
        files = await anyio.to_thread.run_sync(self._files.compose)
        context = SystemContext.combine(*map(SystemContext.make, self._builtin), files)
        return (await context.initialize()).baseline
