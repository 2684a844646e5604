"""A real project on a real disk, with a service that looks at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from perdure.config.location import find_project
from perdure.config.schema import InstructionOptions
from perdure.context import Generation, Unchanged, Updated
from perdure.context.snapshot import SourceSnapshot
from perdure.instructions import InstructionService


class Project:
    """A project under git, a directory two levels below its root, and the user's own directory."""

    def __init__(self, root: Path) -> None:
        self.user = root / "config"
        self.root = root / "project"
        self.below = self.root / "a" / "b"
        self.user.mkdir()
        self.below.mkdir(parents=True)
        (self.root / ".git").mkdir()

    def service(
        self, *discovered: Path, options: InstructionOptions | None = None
    ) -> InstructionService:
        return InstructionService(
            self.user, find_project(self.below), discovered=discovered, options=options
        )

    async def told(
        self, *discovered: Path, options: InstructionOptions | None = None
    ) -> Generation:
        """Return what a session that begins now is told."""
        return await self.service(*discovered, options=options).compose().initialize()

    async def next(
        self, snapshot: Mapping[str, SourceSnapshot], *discovered: Path
    ) -> Updated | Unchanged:
        """Return what a session is told at its next boundary."""
        context = self.service(*discovered).compose(snapshot)
        result = await context.reconcile(snapshot)
        assert isinstance(result, Updated | Unchanged)
        return result

    async def update(self, snapshot: Mapping[str, SourceSnapshot], *discovered: Path) -> str:
        """Return the text of that, which must be some."""
        result = await self.next(snapshot, *discovered)
        assert isinstance(result, Updated)
        return result.text


def files(generation: Generation) -> Sequence[str]:
    """Return the paths of the files that were told, in the order in which they were."""
    return [str(entry.value["path"]) for entry in generation.snapshot.values()]
