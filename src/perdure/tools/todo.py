"""The tool `todo`: what is left to do, as a fact that stays told.

The list is a session entry, so it is a Context Source: it survives compaction and restarts, and a
program that changes it through the API is heard.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

import msgspec

from perdure.tools.base import Tool, ToolContext, ToolOutput

ENTRY = "todo"
"""The session entry that holds the list."""


class TodoItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to do."""

    content: Annotated[
        str, msgspec.Meta(min_length=1, max_length=500, description="What is to be done.")
    ]
    status: Annotated[
        Literal["pending", "in_progress", "completed"], msgspec.Meta(description="How far it is.")
    ] = "pending"


class TodoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole list."""

    items: Annotated[
        list[TodoItem],
        msgspec.Meta(max_length=50, description="The complete new list; empty when all is done."),
    ]


def todo_tool() -> Tool[TodoArguments]:
    """Return the tool."""
    return Tool(
        name="todo",
        description=(
            "Keep a list of what is to be done in work of several parts. Each call replaces the "
            "whole list. Keep one item in progress, and mark items completed as soon as they are."
        ),
        arguments=TodoArguments,
        run=_run,
        idempotent=True,
    )


async def _run(arguments: TodoArguments, _: ToolContext) -> ToolOutput:
    counts = Counter(item.status.replace("_", " ") for item in arguments.items)
    words = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    items = msgspec.to_builtins(arguments.items)
    return ToolOutput(f"The list has {words or 'no items'}.", entries={ENTRY: items})
