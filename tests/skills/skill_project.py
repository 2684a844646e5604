"""A real project on a real disk, with the user's own places beside it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.config.location import find_project
from perdure.context import Generation, Source, SystemContext, Unchanged, Updated
from perdure.context.snapshot import SourceSnapshot
from perdure.history.content import ToolCall
from perdure.skills import SkillIndex, find_skills, user_skills
from perdure.sources import SkillCatalog
from perdure.tools import Settled, ToolContext, ToolSet, settle, skill_tool

DESCRIPTION = "Works with PDF files. Use it when somebody mentions one."


class SkillProject:
    """A project under git with a directory two levels below its root, and a user's home."""

    def __init__(self, root: Path) -> None:
        self.root = root / "project"
        self.below = self.root / "a" / "b"
        self.home = root / "home"
        self.config = self.home / ".config" / "perdure"
        self.outputs = root / "outputs"
        self.below.mkdir(parents=True)
        self.config.mkdir(parents=True)
        (self.root / ".git").mkdir()
        self.place = self.root / ".agents" / "skills"
        self.user_place = self.home / ".agents" / "skills"

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.home)}

    def add(
        self,
        folder: str,
        text: str | bytes | None = None,
        *,
        place: Path | None = None,
        description: str = DESCRIPTION,
        body: str = "Do it.\n",
    ) -> Path:
        """Write a skill, by default a sound one, and return its folder."""
        path = (place or self.place) / folder
        path.mkdir(parents=True, exist_ok=True)
        if text is None:
            text = f"---\nname: {folder}\ndescription: {description}\n---\n{body}"
        (path / "SKILL.md").write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def index(self) -> SkillIndex:
        return find_skills(find_project(self.below), user_skills(self.env))

    def names(self) -> list[str]:
        return [skill.name for skill in self.index().skills]

    def troubles(self) -> list[str]:
        """Return what the index complains of, with paths relative to what holds the project."""
        index = self.index()
        above = f"{self.root.parent}/"
        return [str(each).replace(above, "") for each in (*index.troubles, *index.blocked)]

    def catalog(self) -> SkillCatalog:
        return SkillCatalog(find_project(self.below), user_skills(self.env))

    async def told(self) -> Generation:
        """Return what a session that begins now is told."""
        return await composed(self.catalog().source({})).initialize()

    async def next(self, snapshot: Mapping[str, SourceSnapshot]) -> Updated | Unchanged:
        """Return what a session is told at its next boundary."""
        result = await composed(self.catalog().source(snapshot)).reconcile(snapshot)
        assert isinstance(result, Updated | Unchanged)
        return result

    async def update(self, snapshot: Mapping[str, SourceSnapshot]) -> str:
        """Return the text of that, which must be some."""
        result = await self.next(snapshot)
        assert isinstance(result, Updated)
        return result.text

    async def call(self, **arguments: Any) -> Settled:
        """Run the tool `skill` to its settlement."""
        context = ToolContext(
            session="session",
            call="call",
            directory=self.below,
            project=self.root,
            outputs=self.outputs,
            progress=lambda _: None,
        )
        call = ToolCall("call", "skill", msgspec.json.encode(arguments).decode())
        return await settle(call, ToolSet([skill_tool(user_skills(self.env))]), context)


def composed(source: Source[Any]) -> SystemContext:
    return SystemContext.make(source)


def refuse(monkeypatch: pytest.MonkeyPatch, path: Path, error: OSError) -> None:
    """Let nobody examine a path or what is below. Permissions would not stop a test run by root."""
    real: Any = Path.stat

    def fail(self: Path, **options: Any) -> Any:
        if self.is_relative_to(path):
            raise error
        return real(self, **options)

    monkeypatch.setattr(Path, "stat", fail)


def refuse_open(monkeypatch: pytest.MonkeyPatch, names: Iterable[str], error: OSError) -> None:
    """Let the opening of files with these names fail."""
    real = os.open

    def fail(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path in names:
            raise error
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", fail)
