"""The tool `write`: a whole file."""

from __future__ import annotations

from typing import Annotated

import msgspec
from anyio import to_thread

from perdure.errors import ToolError
from perdure.tools.base import Tool, ToolContext, ToolOutput
from perdure.tools.confine import Place, confine
from perdure.tools.files import PathLocks, replace_file
from perdure.tools.printable import printable
from perdure.tools.subjects import path_subject


class WriteArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to write."""

    path: Annotated[str, msgspec.Meta(description="The file, relative to the working directory.")]
    content: Annotated[str, msgspec.Meta(description="The complete new content.")]


def write_tool(locks: PathLocks) -> Tool[WriteArguments]:
    """Return the tool; `locks` are shared with every tool that changes files."""

    async def run(arguments: WriteArguments, context: ToolContext) -> ToolOutput:
        place = confine(arguments.path, context, write=True)
        if arguments.path.endswith("/") and not place.path.is_dir():
            raise ToolError(
                f"{printable(arguments.path)} names a directory; give the path of a file"
            )
        async with locks.of(place.path):
            return await to_thread.run_sync(_write, arguments.content, place)

    return Tool(
        name="write",
        description=(
            "Create a file, or replace all of its content. Missing directories are made. "
            "To change a part of a file, use edit."
        ),
        arguments=WriteArguments,
        run=run,
        subject=path_subject,
        default="ask",
    )


def _write(content: str, place: Place) -> ToolOutput:
    data = content.encode()
    verb = "Created" if replace_file(place, data) else "Overwrote"
    return ToolOutput(f"{verb} {place.shown}: {len(data)} bytes.", (place.path,))
