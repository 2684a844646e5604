"""The set of tools that a session offers to its model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from perdure.errors import UsageError
from perdure.history.content import ToolDefinition
from perdure.tools.base import Tool

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class ToolSet:
    """Tools by name. It never changes; `with_tools` makes a larger one."""

    def __init__(self, tools: Iterable[Tool[Any]] = ()) -> None:
        """Take the tools. Raise UsageError for a bad or repeated name, or arguments that are no
        msgspec Struct."""
        self._tools: dict[str, Tool[Any]] = {}
        definitions: dict[str, ToolDefinition] = {}
        for tool in tools:
            _require_a_name(tool.name)
            if tool.name in self._tools:
                raise UsageError(f"two tools are named {tool.name!r}; rename or remove one")
            self._tools[tool.name] = tool
            definitions[tool.name] = _definition(tool)
        self._definitions = tuple(definitions[name] for name in sorted(definitions))

    def __iter__(self) -> Iterator[Tool[Any]]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def with_tools(self, tools: Iterable[Tool[Any]]) -> ToolSet:
        """Return a set of these tools and further ones."""
        return ToolSet((*self, *tools))

    def without(self, name: str) -> ToolSet:
        """Return a set of these tools but one; the same where it is not among them."""
        if name not in self._tools:
            return self
        rest = ToolSet()
        rest._tools = {each: tool for each, tool in self._tools.items() if each != name}
        rest._definitions = tuple(each for each in self._definitions if each.name != name)
        return rest

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return what the model is told of the tools, sorted by name."""
        return self._definitions

    def find(self, name: str) -> Tool[Any] | None:
        """Return the tool of that name, or None."""
        return self._tools.get(name)

    def near(self, name: str) -> list[str]:
        """Return the names most like one that was not found; all names where none is like it."""
        lower = {known.lower(): known for known in self._tools}
        close = difflib.get_close_matches(name.lower()[:64], lower, n=3, cutoff=0.5)
        return [lower[key] for key in close] or sorted(self._tools)


def _require_a_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no name for a tool; use 1 to 64 letters, digits, hyphens and underscores"
        )


def _definition(tool: Tool[Any]) -> ToolDefinition:
    try:
        definition = tool.definition()
    except TypeError as error:
        raise UsageError(f"the arguments of tool {tool.name!r} have no schema: {error}") from error
    if definition.parameters.get("type") != "object":
        raise UsageError(f"the arguments of tool {tool.name!r} must be a msgspec Struct")
    return definition
