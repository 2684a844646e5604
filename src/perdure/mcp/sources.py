"""What the model is told of a server: its instructions, and which tools it offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.context import ABSENT, UNAVAILABLE, Source
from perdure.mcp.names import instructions_key, tools_key
from perdure.mcp.offer import Offer


class Listed(msgspec.Struct, frozen=True):
    """A tool as it is listed."""

    name: str
    purpose: str


def server_sources(server: str, offer: Offer | None) -> list[Source[Any]]:
    """Return the Context Sources of a server; Unavailable without an offer."""
    return [_instructions(server, offer), _tools(server, offer)]


def _instructions(server: str, offer: Offer | None) -> Source[str]:
    def load() -> Any:
        return UNAVAILABLE if offer is None else offer.instructions or ABSENT

    return Source(
        key=instructions_key(server),
        type=str,
        load=load,
        baseline=lambda text: f"The MCP server {server} says how its tools are used:\n{text}",
        update=lambda _, text: (
            f"The MCP server {server} now says how its tools are used, and what it said before "
            f"does not hold:\n{text}"
        ),
        removed=lambda _: f"What the MCP server {server} said of its tools does not hold any more.",
        inline=True,
    )


def _tools(server: str, offer: Offer | None) -> Source[tuple[Listed, ...]]:
    def load() -> Any:
        if offer is None:
            return UNAVAILABLE
        return tuple(Listed(tool.definition.name, tool.purpose) for tool in offer.tools)

    return Source(
        key=tools_key(server),
        type=tuple[Listed, ...],
        load=load,
        baseline=lambda tools: f"The MCP server {server} offers {_list(tools)}",
        update=lambda _, tools: f"The MCP server {server} now offers only {_list(tools)}",
        removed=lambda _: (
            f"The MCP server {server} was taken out of the configuration; its tools are gone."
        ),
        inline=True,
    )


def _list(tools: Sequence[Listed]) -> str:
    if not tools:
        return "no tools."
    return "these tools:\n" + "\n".join(f"- {tool.name}: {tool.purpose}" for tool in tools)
