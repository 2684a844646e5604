"""The tool `list`: what one directory holds."""

from __future__ import annotations

from typing import Annotated

import msgspec

from perdure.errors import ToolError
from perdure.tools.base import Tool, ToolContext, ToolOutput
from perdure.tools.confine import confine
from perdure.tools.files import require_a_directory
from perdure.tools.printable import printable
from perdure.tools.searching import Search, remark, search
from perdure.tools.subjects import path_subject

_LIMIT = 1000


class ListArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to list."""

    path: Annotated[
        str, msgspec.Meta(description="The directory, relative to the working directory.")
    ] = "."


def list_tool() -> Tool[ListArguments]:
    """Return the tool."""
    return Tool(
        name="list",
        description=(
            "List one directory, sorted by name. Directories end in a slash; links show where they "
            "lead. Git-ignored entries are left out."
        ),
        arguments=ListArguments,
        run=_list,
        subject=path_subject,
        idempotent=True,
    )


async def _list(arguments: ListArguments, context: ToolContext) -> ToolOutput:
    place = confine(arguments.path, context)
    require_a_directory(place)
    finds = await search(Search("list", place, _LIMIT))
    if not finds.complete:
        raise ToolError(f"{place.shown} could not be listed in time")
    text = "\n".join(map(printable, finds.found))
    ignored = f"{finds.ignored} git-ignored entries are left out." if finds.ignored else ""
    if not text and not ignored:
        text = f"{place.shown} is an empty directory."
    more = remark(finds, "{} more entries are left out.")
    return ToolOutput(text, (place.path,), "\n".join(filter(None, (more, ignored))))
