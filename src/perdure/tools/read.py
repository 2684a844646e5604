"""The tool `read`: a text file with line numbers, or an image."""

from __future__ import annotations

import difflib
import io
import re
from typing import Annotated, BinaryIO, TextIO

import msgspec
from anyio import from_thread, to_thread

from perdure.errors import ImageRefused, ToolError
from perdure.files import directory, names_in
from perdure.images import LARGEST, kind_of, make_image
from perdure.tools.base import Tool, ToolContext, ToolOutput
from perdure.tools.bounded import Limits
from perdure.tools.confine import Place, confine, explained
from perdure.tools.files import open_file, text_encoding
from perdure.tools.printable import printable
from perdure.tools.subjects import path_subject

_LONGEST_LINE = 2000
_PIECE = 64 * 1024
_SIGNATURE = 12
_NAMES_COMPARED = 2000
_ESCAPED_BYTE = re.compile("[\udc80-\udcff]")


class ReadArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to read."""

    path: Annotated[str, msgspec.Meta(description="The file, relative to the working directory.")]
    offset: Annotated[int, msgspec.Meta(ge=1, description="The first line, counted from 1.")] = 1
    limit: Annotated[int, msgspec.Meta(ge=1, description="How many lines at most.")] = 2000


def read_tool(limits: Limits) -> Tool[ReadArguments]:
    """Return the tool; it never shows more than the limits in one call."""

    async def run(arguments: ReadArguments, context: ToolContext) -> ToolOutput:
        return await to_thread.run_sync(_read, arguments, context, limits)

    return Tool(
        name="read",
        description=(
            "Read a text file. Each line comes with its number. For a long file, give offset and "
            "limit to read it in parts. An image (PNG, JPEG, GIF, WebP) is shown as it is, where "
            "the model takes images. Directories and other binary files are refused."
        ),
        arguments=ReadArguments,
        run=run,
        subject=path_subject,
        idempotent=True,
    )


def _read(arguments: ReadArguments, context: ToolContext, limits: Limits) -> ToolOutput:
    place = confine(arguments.path, context)
    with explained(place.shown):
        try:
            file = open_file(place)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ToolError(_missing(place)) from error
        with file:
            if picture := _picture(file, place, context):
                return picture
            encoding = text_encoding(file, place)
            errors = "surrogateescape" if encoding.startswith("utf-8") else "replace"
            text = io.TextIOWrapper(file, encoding, errors, newline="\n")
            return _page(text, place, arguments, limits)


def _picture(file: BinaryIO, place: Place, context: ToolContext) -> ToolOutput | None:
    """Return an image as the model sees it; None, at the start again, where it is none."""
    kind = kind_of(file.read(_SIGNATURE))
    file.seek(0)
    if kind is None:
        return None
    if not context.images:
        raise ToolError(f"{place.shown} is an image ({kind}), and this model takes no images")
    try:
        image = make_image(file.read(LARGEST + 1), printable(place.name))
    except ImageRefused as error:
        raise ToolError(str(error)) from error
    return ToolOutput(image.described, (place.path,), images=(image,))


def _page(text: TextIO, place: Place, arguments: ReadArguments, limits: Limits) -> ToolOutput:
    lines = min(arguments.limit, limits.lines)
    shown: list[str] = []
    room = limits.size
    number = 0
    while (line := _line(text)) is not None:
        number += 1
        if number % 1000 == 0:
            from_thread.check_cancelled()
        if number < arguments.offset:
            continue
        numbered = f"{number}\t{line}\n"
        room -= len(numbered.encode("utf-8", "surrogatepass"))
        if shown and (len(shown) == lines or room < 0):
            return _output(shown, place, f"The file goes on; read it with offset {number}.")
        shown.append(numbered)
    if number == 0:
        return ToolOutput(f"{place.shown} is empty.", (place.path,))
    if not shown:
        count = "1 line" if number == 1 else f"{number} lines"
        raise ToolError(f"{place.shown} has {count}; offset {arguments.offset} is beyond its end")
    return _output(shown, place, "")


def _output(shown: list[str], place: Place, note: str) -> ToolOutput:
    text, replaced = _ESCAPED_BYTE.subn("\ufffd", "".join(shown))
    if replaced:
        note = f"{replaced} bytes here are not UTF-8; they are shown as \ufffd. {note}".rstrip()
    return ToolOutput(text, (place.path,), note)


def _line(text: TextIO) -> str | None:
    start = text.readline(_LONGEST_LINE + 1)
    if start.endswith("\n"):
        return start.removesuffix("\n").removesuffix("\r")
    if len(start) <= _LONGEST_LINE:
        return start or None
    length, rest = len(start), start
    while rest and not rest.endswith("\n"):
        from_thread.check_cancelled()
        rest = text.readline(_PIECE)
        length += len(rest)
    length -= rest.endswith("\n")
    if length == _LONGEST_LINE + 1 and start.endswith("\r"):
        return start.removesuffix("\r")
    return f"{start[:_LONGEST_LINE]} [... the line goes on; it has {length} characters ...]"


def _missing(place: Place) -> str:
    try:
        with directory(place.root, place.parents) as held:
            names = names_in(held, _NAMES_COMPARED)
    except OSError:
        return f"{place.shown} does not exist, nor does the directory it would be in"
    near = difflib.get_close_matches(place.name, names, n=3)
    hint = f"; near it there is {', '.join(map(printable, near))}" if near else ""
    return f"{place.shown} does not exist{hint}"
