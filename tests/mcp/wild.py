"""One server of the wild kind, and how to wait for what it does."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from perdure.clock import Clock, SystemClock
from perdure.config.load import from_mapping
from perdure.config.schema import McpServer
from perdure.mcp import Pace, Servers, ServersView
from perdure.tools.base import ToolOutput

SCRIPT = Path(__file__).with_name("wild_server.py")
PATIENT = {"join": 60.0, "call": 60.0}
"""As many seconds as a server may take to start on a busy machine."""


class Wild:
    """A server named `wild`; files in `directory` decide what it does."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()

    def table(self, **more: Any) -> dict[str, Any]:
        """Return its table in a configuration."""
        return {
            "command": sys.executable,
            "args": ["-I", "-S", str(SCRIPT), str(self.directory)],
            **more,
        }

    def wanted(self, **more: Any) -> dict[str, McpServer]:
        """Return its configuration."""
        return dict(from_mapping({"mcp": {"wild": self.table(**more)}}).mcp)

    def write(self, name: str, content: object = "") -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        (self.directory / name).write_text(text)

    def lift(self, name: str) -> None:
        (self.directory / name).unlink()

    def lines(self, name: str) -> list[str]:
        file = self.directory / name
        return file.read_text().split() if file.exists() else []


class Held:
    """The servers of a runtime without the runtime."""

    def __init__(self, servers: Servers, wanted: dict[str, McpServer], project: Path) -> None:
        self.servers = servers
        self._wanted = wanted
        self._project = project
        self.shown: list[str] = []

    async def prepare(self) -> ServersView:
        await self.servers.prepare(self._wanted, self._project)
        return self.view()

    def view(self) -> ServersView:
        return self.servers.view(self._wanted, self._project)

    async def call(self, tool: str, **arguments: Any) -> str:
        return (await self.output(tool, **arguments)).text

    async def output(self, tool: str, **arguments: Any) -> ToolOutput:
        (seen,) = self.view().seen
        return await seen.call(f"mcp_wild_{tool}", arguments, self.shown.append)


@asynccontextmanager
async def held(
    wanted: dict[str, McpServer],
    project: Path,
    env: dict[str, str],
    clock: Clock | None = None,
    **pace: float,
) -> AsyncGenerator[Held]:
    given = Pace(**(PATIENT | pace))
    async with Servers(env, clock or SystemClock(), given) as servers:
        yield Held(servers, wanted, project)


async def until(happened: Callable[[], object], seconds: float = 60) -> None:
    """Wait until something is so."""
    with anyio.fail_after(seconds):
        while not happened():
            await anyio.sleep(0.01)
