"""The servers of one runtime."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import TaskGroup

from perdure.clock import Clock
from perdure.config.schema import McpServer
from perdure.mcp.names import tools_key
from perdure.mcp.server import Pace, Server
from perdure.mcp.view import Seen, ServersView

_Key = tuple[str, McpServer, Path | None]

DEFAULT_PACE = Pace()


class Servers:
    """Holds the servers of one runtime, in one event loop; leaving its context ends them all.

    One server serves all sessions that have the same configuration of it, and for a program on
    this machine the same project. Nothing that a server does raises here.
    """

    def __init__(self, env: Mapping[str, str], clock: Clock, pace: Pace | None = None) -> None:
        """Start nothing yet. Programs get from `env` what is harmless and what is configured."""
        self._env = env
        self._clock = clock
        self._pace = pace or DEFAULT_PACE
        self._servers: dict[_Key, Server] = {}
        self._group: TaskGroup = anyio.create_task_group()

    async def __aenter__(self) -> Self:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)

    async def prepare(
        self, wanted: Mapping[str, McpServer], directory: Path, told: Collection[str] = ()
    ) -> None:
        """Have these servers started for a project, those that are not; wait for none for long.

        A server that the model has been told of, as the keys `told` of a Context Snapshot say, is
        not waited for at all.
        """
        servers = list(self._at(wanted, directory))
        for server in servers:
            server.want()
        async with anyio.create_task_group() as group:
            for server in servers:
                if tools_key(server.name) not in told:
                    group.start_soon(server.joined)

    def view(self, wanted: Mapping[str, McpServer], directory: Path) -> ServersView:
        """Return what these servers contribute now."""
        return ServersView(tuple(map(_seen, self._at(wanted, directory))))

    def _at(self, wanted: Mapping[str, McpServer], directory: Path) -> Iterator[Server]:
        for name in sorted(wanted):
            config = wanted[name]
            if config.disabled:
                continue
            key = (name, config, directory if config.command else None)
            if key not in self._servers:
                server = Server(name, config, directory, self._env, self._clock, self._pace)
                self._servers[key] = server
                self._group.start_soon(server.run)
            yield self._servers[key]


def _seen(server: Server) -> Seen:
    return Seen(
        name=server.name,
        status=server.status,
        problem=server.problem,
        offer=server.offer,
        allowed=server.config.tools,
        call=server.call,
        reads_only=server.reads_only,
    )
