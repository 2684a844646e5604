"""The tool `task`: work for a session of its own, of which only the result comes back."""

from __future__ import annotations

from typing import Annotated

import msgspec

from perdure.errors import ToolError
from perdure.tools.base import Delegated, Tool, ToolContext, ToolOutput
from perdure.tools.printable import printable, storable

NAME = "task"
"""The name of the tool; a session that works on a task is not offered it."""

_TITLE = 60
"""Characters of a description that become the title of the session."""


class TaskArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One task."""

    description: Annotated[
        str, msgspec.Meta(min_length=1, description="What the task is, in three to six words.")
    ]
    prompt: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            description=(
                "The whole task, with all that must be known for it and what to report. Nothing "
                "else of this conversation is seen by whoever works on it."
            ),
        ),
    ]


def task_tool() -> Tool[TaskArguments]:
    """Return the tool. It is idempotent: the same call always has the same session."""
    return Tool(
        name=NAME,
        description=(
            "Give a piece of work that stands for itself, such as a search through many files, to "
            "a session of its own in the same directory. It has the same tools, but not this one, "
            "and only its last message comes back. Tasks called for together are worked on side "
            "by side; let no two of them change the same files."
        ),
        arguments=TaskArguments,
        run=_run,
        idempotent=True,
    )


async def _run(arguments: TaskArguments, context: ToolContext) -> ToolOutput:
    if context.delegate is None:
        raise ToolError("no task can be given here; do the work yourself")
    prompt = storable(arguments.prompt)
    if not prompt.strip():
        raise ToolError("the prompt of the task is empty; write what is to be done")
    done = await context.delegate(_title(arguments.description) or _title(prompt), prompt)
    if done.problem:
        raise ToolError(_in_words(done))
    return ToolOutput(done.answer or "(no answer)", note=f"(the task was session {done.session})")


def _title(text: str) -> str:
    return printable(" ".join(storable(text).split()))[:_TITLE]


def _in_words(done: Delegated) -> str:
    words = f" Its last words were:\n\n{done.answer}" if done.answer else ""
    return f"{done.problem} (session {done.session}).{words}"
