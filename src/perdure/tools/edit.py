"""The tool `edit`: an exact replacement inside a file."""

from __future__ import annotations

from typing import Annotated

import msgspec
from anyio import to_thread

from perdure.errors import ToolError
from perdure.tools.base import Tool, ToolContext, ToolOutput
from perdure.tools.confine import Place, confine
from perdure.tools.files import PathLocks, replace_file
from perdure.tools.subjects import path_subject
from perdure.tools.texts import load_text


class EditArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to replace."""

    path: Annotated[str, msgspec.Meta(description="The file, relative to the working directory.")]
    old: Annotated[
        str, msgspec.Meta(description="The exact text to replace, white space included.")
    ]
    new: Annotated[str, msgspec.Meta(description="The text to put in its place.")]
    all: Annotated[bool, msgspec.Meta(description="Replace every match, not just one.")] = False


def edit_tool(locks: PathLocks) -> Tool[EditArguments]:
    """Return the tool; `locks` are shared with every tool that changes files."""

    async def run(arguments: EditArguments, context: ToolContext) -> ToolOutput:
        place = confine(arguments.path, context, write=True)
        async with locks.of(place.path):
            return await to_thread.run_sync(_edit, arguments, place)

    return Tool(
        name="edit",
        description=(
            "Replace text in a file. old must match exactly, without the line numbers that read "
            "shows, and must occur once unless all is true."
        ),
        arguments=EditArguments,
        run=run,
        subject=path_subject,
        default="ask",
    )


def _edit(arguments: EditArguments, place: Place) -> ToolOutput:
    if not arguments.old:
        raise ToolError("old is empty; give the text to replace, or use write for a whole file")
    if arguments.old == arguments.new:
        raise ToolError("old and new are the same; there is nothing to change")
    file = load_text(place)
    content = file.content
    old, new = _with_line_ends_of(content, arguments.old, arguments.new)
    count = occurrences(content, old)
    _require_a_clear_match(count, arguments, place)
    changed = content.replace(old, new)
    replace_file(place, file.with_content(changed))
    first = content.count("\n", 0, content.find(old)) + 1
    replaced = content.count(old)
    times = "1 occurrence" if replaced == 1 else f"{replaced} occurrences"
    return ToolOutput(f"Replaced {times} in {place.shown}, first at line {first}.", (place.path,))


def occurrences(content: str, old: str) -> int:
    """Return how often a text occurs; an overlapping second place counts as one more."""
    count = content.count(old)
    if count == 1 and content.find(old, content.find(old) + 1) >= 0:
        return 2
    return count


def _require_a_clear_match(count: int, arguments: EditArguments, place: Place) -> None:
    if count == 0:
        raise ToolError(
            f"old occurs 0 times in {place.shown}; it must match exactly, white space included "
            "and line numbers left out. Read the file again"
        )
    if count > 1 and not arguments.all:
        raise ToolError(
            f"old occurs {count} times in {place.shown}; give more of the text around it, "
            "or set all to replace every one"
        )


def _with_line_ends_of(content: str, old: str, new: str) -> tuple[str, str]:
    # `read` shows lines without their ends, so a model writes plain newlines for CRLF files too.
    crlf = content.count("\r\n")
    only_crlf = crlf > 0 and crlf == content.count("\n")
    if only_crlf or (crlf and old not in content):
        return _crlf(old), _crlf(new)
    return old, new


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
