"""What a plugin owns by its name.

A plugin named `weather` owns the Context Source keys `weather/…` and `weather.…/…` and the tool
names `weather`, `weather_…` and `weather-…`. So what a session was told by a plugin that cannot be
loaded is still known to be that plugin's, even after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable

from perdure.config.values import plugin_name

RESERVED = frozenset(
    {"entry", "instructions", "mcp", "perdure", "plugin", "plugins", "skill", "skills"}
)
"""Names that no plugin may have, since Perdure's own sources lie there."""


def name_problem(name: str) -> str | None:
    """Say why a plugin cannot have that name, or None where it can."""
    if rule := plugin_name(name):
        return f"this is not a usable name; rename it: a name is {rule}"
    if name in RESERVED:
        return "this name is Perdure's own; rename the plugin"
    return None


def owner_of_key(key: str) -> str:
    """Return the name of the plugin that would own a Context Source key."""
    namespace, _, _ = key.partition("/")
    return namespace.partition(".")[0]


def owns_tool(plugin: str, tool: str) -> bool:
    """Say whether a tool name belongs to a plugin."""
    return tool == plugin or tool.startswith((f"{plugin}_", f"{plugin}-"))


def owner_of_tool(tool: str, plugins: Iterable[str]) -> str | None:
    """Return which of these plugins owns a tool name, the longest name first; None for none."""
    return max((name for name in plugins if owns_tool(name, tool)), key=len, default=None)
