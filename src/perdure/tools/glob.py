"""The tool `glob`: files by the pattern of their path."""

from __future__ import annotations

from typing import Annotated

import msgspec

from perdure.errors import ToolError
from perdure.tools.base import Tool, ToolContext, ToolOutput
from perdure.tools.confine import confine
from perdure.tools.files import require_a_directory
from perdure.tools.printable import printable
from perdure.tools.searching import SECONDS, Search, remark, search, shown_prefix
from perdure.tools.subjects import path_subject

_LIMIT = 1000


class GlobArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for."""

    pattern: Annotated[
        str, msgspec.Meta(description="Relative to path, such as `**/*.py` or `src/*.{c,h}`.")
    ]
    path: Annotated[
        str, msgspec.Meta(description="Where to look, relative to the working directory.")
    ] = "."


def glob_tool(seconds: int = SECONDS) -> Tool[GlobArguments]:
    """Return the tool; one search takes at most that long."""

    async def run(arguments: GlobArguments, context: ToolContext) -> ToolOutput:
        return await _glob(arguments, context, seconds)

    return Tool(
        name="glob",
        description=(
            "Find files by a pattern, sorted by path. `*` and `?` match within one name, `**` "
            "matches any number of directories. Git-ignored files are left out."
        ),
        arguments=GlobArguments,
        run=run,
        subject=path_subject,
        idempotent=True,
    )


async def _glob(arguments: GlobArguments, context: ToolContext, seconds: int) -> ToolOutput:
    pattern = arguments.pattern.removeprefix("./")
    if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
        raise ToolError("the pattern must be relative and without `..`; path says where to look")
    place = confine(arguments.path, context)
    require_a_directory(place)
    shown = shown_prefix(place)
    finds = await search(Search("glob", place, _LIMIT, shown, pattern, seconds=seconds))
    text = "\n".join(map(printable, finds.found)) or _nothing(pattern)
    return ToolOutput(text, note=remark(finds, "{} more files match; narrow the pattern."))


def _nothing(pattern: str) -> str:
    if "/" in pattern:
        return f"No file matches {printable(pattern)}."
    return (
        f"No file in that directory itself matches {printable(pattern)}; "
        f"**/{printable(pattern)} looks in all directories below, too."
    )
