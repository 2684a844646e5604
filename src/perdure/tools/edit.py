"""The tool `edit`: an exact replacement inside a file."""

from __future__ import annotations

import codecs
from typing import Annotated

import msgspec
from anyio import to_thread

from perdure.errors import ToolError
from perdure.tools.base import Tool, ToolContext, ToolOutput
from perdure.tools.confine import Place, confine, explained
from perdure.tools.files import PathLocks, open_file, replace_file, text_encoding
from perdure.tools.subjects import path_subject

_LARGEST = 16 * 1024 * 1024
_BYTE_ORDER = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


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
    )


def _edit(arguments: EditArguments, place: Place) -> ToolOutput:
    if not arguments.old:
        raise ToolError("old is empty; give the text to replace, or use write for a whole file")
    if arguments.old == arguments.new:
        raise ToolError("old and new are the same; there is nothing to change")
    mark, encoding, content = _load(place)
    old, new = _with_line_ends_of(content, arguments.old, arguments.new)
    count = occurrences(content, old)
    _require_a_clear_match(count, arguments, place)
    changed = content.replace(old, new)
    replace_file(place, mark + changed.encode(encoding, _bad_bytes(encoding)))
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


def _load(place: Place) -> tuple[bytes, str, str]:
    with explained(place.shown), open_file(place) as file:
        encoding = text_encoding(file, place)
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise ToolError(f"{place.shown} is too large to edit here (over 16 MiB); use the shell")
    mark = b""
    if encoding == "utf-8-sig":
        mark, encoding = codecs.BOM_UTF8, "utf-8"
    elif encoding == "utf-16":
        mark, encoding = data[:2], _BYTE_ORDER[data[:2]]
    return mark, encoding, _decoded(data[len(mark) :], encoding, place)


def _decoded(data: bytes, encoding: str, place: Place) -> str:
    try:
        return data.decode(encoding, _bad_bytes(encoding))
    except UnicodeDecodeError as error:
        raise ToolError(f"{place.shown} is damaged: it is no whole UTF-16 text") from error


def _bad_bytes(encoding: str) -> str:
    # Bytes that are no UTF-8 survive an edit elsewhere in the file unchanged.
    return "surrogateescape" if encoding == "utf-8" else "strict"


def _with_line_ends_of(content: str, old: str, new: str) -> tuple[str, str]:
    # `read` shows lines without their ends, so a model writes plain newlines for CRLF files too.
    crlf = content.count("\r\n")
    only_crlf = crlf > 0 and crlf == content.count("\n")
    if only_crlf or (crlf and old not in content):
        return _crlf(old), _crlf(new)
    return old, new


def _crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")
