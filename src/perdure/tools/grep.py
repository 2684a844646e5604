"""The tool `grep`: lines by a regular expression."""

from __future__ import annotations

import shutil
from typing import Annotated

import msgspec

from perdure.errors import ToolError
from perdure.tools.base import Tool, ToolContext, ToolOutput
from perdure.tools.confine import Place, confine, shown
from perdure.tools.files import is_directory
from perdure.tools.printable import printable
from perdure.tools.ripgrep import search_with_ripgrep, suits
from perdure.tools.searching import SECONDS, Finds, Search, remark, search, shown_prefix
from perdure.tools.subjects import path_subject

_LIMIT = 1000


class GrepArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to look for."""

    pattern: Annotated[
        str, msgspec.Meta(description="A regular expression, matched within one line.")
    ]
    path: Annotated[
        str, msgspec.Meta(description="Where to look, relative to the working directory.")
    ] = "."
    include: Annotated[
        str, msgspec.Meta(description="Only files that match, such as `*.py` or `src/**/*.{c,h}`.")
    ] = ""


def grep_tool(ripgrep: str | None, seconds: int = SECONDS) -> Tool[GrepArguments]:
    """Return the tool; one search takes at most that long.

    `ripgrep` is the command to use where it is found, None for our own search always.
    """

    async def run(arguments: GrepArguments, context: ToolContext) -> ToolOutput:
        wanted = _wanted(arguments, context, seconds)
        finds = await _found(wanted, shutil.which(ripgrep) if ripgrep else None)
        text = "\n".join(map(printable, finds.found)) or "No line matches."
        return ToolOutput(text, note=remark(finds, "More lines match; narrow the search."))

    return Tool(
        name="grep",
        description=(
            "Search text files for lines that match a regular expression, sorted by path. Results "
            "read path:line:text. Git-ignored and binary files are left out."
        ),
        arguments=GrepArguments,
        run=run,
        subject=path_subject,
        idempotent=True,
    )


def _wanted(arguments: GrepArguments, context: ToolContext, seconds: int) -> Search:
    if not arguments.pattern:
        raise ToolError("the pattern is empty; give a regular expression")
    if "\0" in arguments.pattern or "\0" in arguments.include:
        raise ToolError("the pattern holds a NUL character; text files have none")
    place = confine(arguments.path, context)
    file = "" if is_directory(place) else place.name
    if file:
        parent = place.path.parent
        place = Place(place.root, parent, shown(parent, context))
    return Search(
        "grep",
        place,
        _LIMIT,
        shown_prefix(place),
        arguments.pattern,
        arguments.include.removeprefix("./"),
        seconds,
        file,
    )


async def _found(wanted: Search, ripgrep: str | None) -> Finds:
    if ripgrep and suits(wanted):
        finds = await search_with_ripgrep(ripgrep, wanted)
        if finds is not None:
            return finds
    # Our own program also takes what only Python understands, and says why it refuses the rest.
    return await search(wanted)
