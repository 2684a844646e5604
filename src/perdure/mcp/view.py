"""What the servers of a session contribute at one moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from perdure.config.schema import Permission
from perdure.context import Source
from perdure.history.content import ToolDefinition
from perdure.mcp.names import server_of, tool_name
from perdure.mcp.offer import Offer
from perdure.mcp.server import Status
from perdure.mcp.sources import server_sources
from perdure.mcp.target import Progress
from perdure.tools.base import Subject, ToldTool, Tool, ToolContext, ToolOutput

Call = Callable[[str, dict[str, Any], Progress], Awaitable[ToolOutput]]
ReadsOnly = Callable[[str], Awaitable[bool]]


class ServerStatus(msgspec.Struct, frozen=True):
    """How a server stands. `tools` are the names of what it offers, `problems` lines on what is
    wrong."""

    name: str
    status: Status
    tools: tuple[str, ...]
    problems: tuple[str, ...] = ()


class Seen(msgspec.Struct, frozen=True):
    """One server at one moment; `offer` is what it offered last, None where it never did."""

    name: str
    status: Status
    problem: str
    offer: Offer | None
    allowed: tuple[str, ...] | None
    call: Call
    reads_only: ReadsOnly

    def standing(self) -> ServerStatus:
        """Return how it stands."""
        offer = self.offer or Offer()
        problems = (self.problem, *offer.problems) if self.problem else offer.problems
        tools = tuple(tool.definition.name for tool in offer.tools)
        return ServerStatus(self.name, self.status, tools, problems)

    def is_new(self, told: Sequence[ToolDefinition]) -> bool:
        """Say whether it offers a tool that the model was not told of."""
        known = {definition.name for definition in told}
        return any(definition.name not in known for definition in self._offered())

    def tools(self, told: Sequence[ToolDefinition], *, renewed: bool) -> list[Tool[Any]]:
        """Return its tools: as they are now where that is `renewed`, else as they were told."""
        if self.offer is not None and renewed:
            return [self._tool(definition) for definition in self._offered()]
        return [self._tool(definition) for definition in told if self._is_mine(definition)]

    def _offered(self) -> Sequence[ToolDefinition]:
        return [tool.definition for tool in self.offer.tools] if self.offer else []

    def _is_mine(self, told: ToolDefinition) -> bool:
        if server_of(told.name) != self.name:
            return False
        return self.allowed is None or told.name in {
            tool_name(self.name, each) for each in self.allowed
        }

    def _tool(self, definition: ToolDefinition) -> Tool[Any]:
        async def run(arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
            return await self.call(definition.name, arguments, context.progress)

        return _ServerTool(
            name=definition.name,
            description=definition.description,
            arguments=dict[str, Any],
            run=run,
            subject=_subject,
            default="ask",
            told=definition,
            reads_only=self.reads_only,
        )


class _ServerTool(ToldTool, frozen=True, kw_only=True):
    reads_only: ReadsOnly

    async def permission(self) -> Permission:
        # A server may do anything; what it says of itself counts as far as its user trusts it.
        return "allow" if await self.reads_only(self.name) else self.default


class ServersView(msgspec.Struct, frozen=True):
    """What the servers of a session contribute at one moment; it never changes."""

    seen: tuple[Seen, ...] = ()

    def tools(self, told: Sequence[ToolDefinition], *, renewed: bool) -> list[Tool[Any]]:
        """Return the servers' tools, where `told` are the definitions of the epoch in force.

        As long as there is nothing new they stay as they were told: what a server lost or changed
        ends no epoch, and the call of a tool that is gone answers with an error. Where there is a
        new tool, or the epoch ends anyway (`renewed`), they are all as they are now; those of a
        server that was not reached yet stay.
        """
        renewed = renewed or any(each.is_new(told) for each in self.seen)
        return [tool for each in self.seen for tool in each.tools(told, renewed=renewed)]

    def sources(self) -> list[Source[Any]]:
        """Return the servers' instructions and lists of tools as Context Sources.

        Those of a server that is lost are Unavailable.
        """
        return [
            source
            for each in self.seen
            for source in server_sources(each.name, None if each.status == "lost" else each.offer)
        ]

    def standing(self) -> list[ServerStatus]:
        """Return how the servers stand."""
        return [each.standing() for each in self.seen]


def _subject(arguments: dict[str, Any], _: ToolContext) -> Subject:
    return Subject((msgspec.json.encode(arguments, order="deterministic").decode(),))
