"""Markdown that streams: blocks that are finished, and the one that is still open."""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"[ \t]*(`{3,}(?=[^`]*$)|~{3,})")


class Blocks:
    """Splits an answer, as it comes, at blank lines where a block can end.

    What `feed` and `finish` return, joined, is all that was fed. A line is looked at once, so the
    cost does not depend on how much there is already.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line: list[str] = []
        self._fence = ""
        self._said = False
        self._blank = False

    def feed(self, text: str) -> list[str]:
        """Take the next piece; return the blocks that are finished with it."""
        finished: list[str] = []
        *whole, rest = text.split("\n")
        for piece in whole:
            line = "".join([*self._line, piece, "\n"])
            finished += self._end_before(line)
            finished += self._take(line)
            self._line.clear()
        if rest:
            begun = not self._line
            self._line.append(rest)
            if begun:
                finished += self._end_before(rest)
        return finished

    def finish(self) -> list[str]:
        """Return what is open as the last block, if there is any, and begin anew."""
        text = "".join([*self._lines, *self._line])
        self.__init__()
        return [text] if text else []

    def tail(self, length: int) -> str:
        """Return about the last `length` characters, at least, of the block that is open."""
        pieces: list[str] = []
        for piece in self._backwards():
            pieces.append(piece)
            length -= len(piece)
            if length <= 0:
                break
        return "".join(reversed(pieces))

    def _backwards(self) -> Iterator[str]:
        yield from reversed(self._line)
        yield from reversed(self._lines)

    def _end_before(self, line: str) -> Iterator[str]:
        """End the block where the line that begins cannot belong to it."""
        # What is indented may go on with a list; within a fence nothing ends.
        if self._blank and self._said and not self._fence and not line[0].isspace():
            yield self._end()

    def _take(self, line: str) -> Iterator[str]:
        self._lines.append(line)
        self._blank = not line.strip() and not self._fence
        self._said = self._said or not self._blank
        mark = _FENCE.match(line.rstrip("\r\n"))
        if self._fence:
            if line.strip().startswith(self._fence) and not line.strip().strip(self._fence[0]):
                self._fence = ""
                if not line[0].isspace():
                    yield self._end()
        elif mark is not None:
            self._fence = mark[1]

    def _end(self) -> str:
        text = "".join(self._lines)
        self._lines.clear()
        self._said = self._blank = False
        return text
