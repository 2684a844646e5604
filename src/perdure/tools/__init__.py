"""Tools: what they are, the built-in ones, and how one call is run and settled."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.tools.apply_patch import apply_patch_tool
from perdure.tools.base import Delegated, Tool, ToolContext, ToolOutput
from perdure.tools.bounded import DEFAULT_LIMITS, Limits
from perdure.tools.edit import edit_tool
from perdure.tools.fetch import fetch_tool
from perdure.tools.files import PathLocks
from perdure.tools.glob import glob_tool
from perdure.tools.grep import grep_tool
from perdure.tools.list import list_tool
from perdure.tools.read import read_tool
from perdure.tools.registry import ToolSet
from perdure.tools.searching import SECONDS
from perdure.tools.settle import Settled, settle
from perdure.tools.shell import shell_tool
from perdure.tools.skill import skill_tool
from perdure.tools.task import task_tool
from perdure.tools.todo import todo_tool
from perdure.tools.write import write_tool

__all__ = [
    "Delegated",
    "Limits",
    "Settled",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "ToolSet",
    "builtin_tools",
    "settle",
    "skill_tool",
]


def builtin_tools(
    *,
    hidden: Iterable[str] = (),
    limits: Limits = DEFAULT_LIMITS,
    ripgrep: str | None = "rg",
    search_seconds: int = SECONDS,
) -> ToolSet:
    """Return the built-in tools.

    `hidden` names the environment variables, such as those with the keys of providers, that shell
    commands do not see. `limits` bound what `read` and `shell` return. `grep` uses the command
    `ripgrep` where it is found. `glob` and `grep` take at most `search_seconds`.
    """
    locks = PathLocks()
    return ToolSet(
        (
            read_tool(limits),
            list_tool(),
            glob_tool(search_seconds),
            grep_tool(ripgrep, search_seconds),
            write_tool(locks),
            edit_tool(locks),
            apply_patch_tool(locks),
            fetch_tool(),
            todo_tool(),
            task_tool(),
            shell_tool(limits, frozenset(hidden)),
        )
    )
