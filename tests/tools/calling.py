"""Call the built-in tools as a session would."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from perdure.history.content import ToolCall
from perdure.tools import Limits, Settled, Tool, ToolContext, ToolSet, builtin_tools, settle
from perdure.tools.bounded import DEFAULT_LIMITS


class Bench:
    """A project directory, and tools that run in it."""

    def __init__(self, root: Path) -> None:
        root = root.resolve()
        self.root = root
        self.project = root / "project"
        self.project.mkdir()
        self.outputs = root / "outputs"
        self.progress: list[str] = []
        self.tools = builtin_tools()
        self.limits = DEFAULT_LIMITS
        self.directory = self.project
        self.allowed: tuple[Path, ...] = ()
        self.hosts: tuple[str, ...] = ()
        self._numbers = itertools.count(1)

    def use(self, tools: Iterable[Tool[Any]], limits: Limits = DEFAULT_LIMITS) -> None:
        self.tools, self.limits = ToolSet(tools), limits

    def context(self, call: str = "call") -> ToolContext:
        return ToolContext(
            session="session",
            call=call,
            directory=self.directory,
            project=self.project,
            outputs=self.outputs,
            progress=self.progress.append,
            allowed=self.allowed,
            hosts=self.hosts,
        )

    async def call(self, name: str, /, **arguments: Any) -> Settled:
        """Run a tool to its settlement."""
        return await self.raw(name, msgspec.json.encode(arguments).decode())

    async def raw(self, name: str, arguments: str) -> Settled:
        """Run a tool with the arguments exactly as they are written here."""
        call = ToolCall(f"call{next(self._numbers)}", name, arguments)
        return await settle(call, self.tools, self.context(call.id), limits=self.limits)

    def file(self, path: str, content: str | bytes = "") -> Path:
        """Make a file in the project."""
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def git(self) -> None:
        """Make the project a repository, as far as anybody looks."""
        (self.project / ".git" / "info").mkdir(parents=True)
