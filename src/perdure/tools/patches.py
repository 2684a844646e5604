"""Patches as models write them: which files change, and how, found by their own lines.

A patch stands between `*** Begin Patch` and `*** End Patch`. Each file has a line that says what
happens to it: `*** Add File: PATH`, `*** Delete File: PATH`, or `*** Update File: PATH`, the last
one perhaps followed by `*** Move to: PATH`. An added file's lines begin with `+`. An update has
hunks: lines that begin with a space (kept), `-` (taken out) or `+` (put in), each hunk after a line
`@@`, which may name a line above it. No line numbers are used.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.errors import ToolError
from perdure.tools.printable import printable, shortened

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_MOVE = "*** Move to: "


class Hunk(msgspec.Struct, frozen=True):
    """One place of a file: `old` lines become `new` ones, below the line `anchor` if it has one."""

    anchor: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    at_end: bool = False


class Added(msgspec.Struct, frozen=True):
    """A new file."""

    path: str
    lines: tuple[str, ...]


class Deleted(msgspec.Struct, frozen=True):
    """A file that goes away."""

    path: str


class Updated(msgspec.Struct, frozen=True):
    """A file that changes, and perhaps moves."""

    path: str
    hunks: tuple[Hunk, ...]
    moved_to: str = ""


Change = Added | Deleted | Updated


def parse(patch: str) -> list[Change]:
    """Return the changes of a patch, in order; raise ToolError, with the line, for what is none."""
    lines = patch.strip().split("\n")
    if lines[0].strip() != _BEGIN or lines[-1].strip() != _END:
        raise ToolError(f"a patch begins with the line {_BEGIN!r} and ends with {_END!r}")
    reader = _Reader(lines[1:-1])
    changes: list[Change] = []
    while reader.more():
        changes.append(_change(reader))
    if not changes:
        raise ToolError("the patch changes nothing")
    return changes


def paths_of(changes: Sequence[Change]) -> list[str]:
    """Return every path that changes name, as often as they do."""
    paths = [change.path for change in changes]
    return paths + [it.moved_to for it in changes if isinstance(it, Updated) and it.moved_to]


def applied(content: str, change: Updated) -> str:
    """Return a text with all hunks of a change; raise ToolError where one does not fit.

    Hunks are looked for from top to bottom, first exactly, then without regard to white space at
    the ends of lines. The text keeps its own line ends.
    """
    ends = "\r\n" if "\r\n" in content else "\n"
    lines = content.replace("\r\n", "\n").split("\n") if ends == "\r\n" else content.split("\n")
    at = 0
    for hunk in change.hunks:
        at = _find_anchor(lines, hunk, at, change.path)
        place = _find(lines, hunk, at)
        if place is None:
            raise ToolError(_misfit(hunk, change.path))
        lines[place : place + len(hunk.old)] = hunk.new
        at = place + len(hunk.new)
    return ends.join(lines)


class _Reader:
    """The lines of a patch, with their numbers."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._lines)

    def peek(self) -> str:
        return self._lines[self._at].removesuffix("\r") if self.more() else "***"

    def take(self) -> str:
        line = self.peek()
        self._at += 1
        return line

    def error(self, problem: str) -> ToolError:
        line = printable(shortened(self.peek(), 80))
        return ToolError(f"line {self._at + 2} of the patch, {line!r}: {problem}")


def _change(reader: _Reader) -> Change:
    head = reader.peek()
    if head.startswith(_ADD):
        return _added(reader)
    if head.startswith(_DELETE):
        return Deleted(_path(reader, _DELETE))
    if head.startswith(_UPDATE):
        return _updated(reader)
    raise reader.error(f"expected {_ADD!r}, {_DELETE!r} or {_UPDATE!r} with a path")


def _path(reader: _Reader, head: str) -> str:
    path = reader.peek()[len(head) :].strip()
    if not path:
        raise reader.error("the path is missing")
    reader.take()
    return path


def _added(reader: _Reader) -> Added:
    path = _path(reader, _ADD)
    lines: list[str] = []
    while not reader.peek().startswith("***"):
        if not reader.peek().startswith("+"):
            raise reader.error("each line of a new file begins with '+'")
        lines.append(reader.take()[1:])
    return Added(path, tuple(lines))


def _updated(reader: _Reader) -> Updated:
    path = _path(reader, _UPDATE)
    moved_to = _path(reader, _MOVE) if reader.peek().startswith(_MOVE) else ""
    hunks: list[Hunk] = []
    while not reader.peek().startswith("***"):
        hunks.append(_hunk(reader, first=not hunks))
    if not hunks and not moved_to:
        raise reader.error(f"the update of {printable(path)} has no hunks")
    return Updated(path, tuple(hunks), moved_to)


def _hunk(reader: _Reader, *, first: bool) -> Hunk:
    anchor = ""
    if reader.peek().startswith("@@"):
        anchor = reader.take()[2:].strip()
    elif not first:
        raise reader.error("a hunk begins with '@@'")
    old: list[str] = []
    new: list[str] = []
    while not reader.peek().startswith(("***", "@@")):
        mark, text = reader.peek()[:1] or " ", reader.peek()[1:]
        if mark not in " +-":
            raise reader.error("each line of a hunk begins with ' ', '-' or '+'")
        reader.take()
        if mark != "+":
            old.append(text)
        if mark != "-":
            new.append(text)
    if old == new:
        raise reader.error("the hunk above changes nothing")
    at_end = reader.peek() == _END_OF_FILE
    if at_end:
        reader.take()
    return Hunk(anchor, tuple(old), tuple(new), at_end)


def _find_anchor(lines: Sequence[str], hunk: Hunk, at: int, path: str) -> int:
    if not hunk.anchor:
        return at
    for index in range(at, len(lines)):
        if lines[index].strip() == hunk.anchor:
            return index + 1
    raise ToolError(
        f"{printable(path)} has no line {printable(shortened(hunk.anchor, 80))!r} there; "
        "read the file again"
    )


def _find(lines: Sequence[str], hunk: Hunk, at: int) -> int | None:
    if not hunk.old:
        # With nothing to find, it goes behind the anchor, else to the end of the file.
        last = len(lines) - (lines[-1] == "")
        return at if hunk.anchor else last
    width = len(hunk.old)
    places = (
        range(len(lines) - width, at - 1, -1) if hunk.at_end else range(at, len(lines) - width + 1)
    )
    for same in (str, str.rstrip):
        wanted = [same(line) for line in hunk.old]
        for place in places:
            if [same(line) for line in lines[place : place + width]] == wanted:
                return place
    return None


def _misfit(hunk: Hunk, path: str) -> str:
    first = next((line for line in hunk.old if line.strip()), "")
    return (
        f"{printable(path)} does not hold the {len(hunk.old)} lines of the hunk that begins with "
        f"{printable(shortened(first, 80))!r}, in this order and below the hunk before it; nothing "
        "was changed. Read the file again"
    )
