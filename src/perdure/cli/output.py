"""Standard output and standard error: clean on a terminal, exact in a pipe, quiet when gone."""

from __future__ import annotations

import os
import select
from typing import TextIO

_KEPT = {"\n", "\t"}
_REORDERING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_VISIBLE = {
    ord(char): char.encode("unicode_escape").decode()
    for char in [*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), *_REORDERING]
    if char not in _KEPT
}
_VISIBLE[0x1B] = "\N{SYMBOL FOR ESCAPE}"


class OutputGone(Exception):
    """Whoever read the output has gone; there is nobody left to write for."""


def visible(text: str) -> str:
    """Return text that cannot move the cursor, change colours or reorder what is shown.

    Line ends and tabs stay; every other control character becomes visible.
    """
    return text.replace("\r\n", "\n").translate(_VISIBLE)


class Output:
    """One of the two standard streams; a stream that was closed before the start takes anything.

    `is_terminal` says whether a person sees it, `styled` whether colours are wanted there.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self.is_terminal = stream is not None and not stream.closed and stream.isatty()
        dumb = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
        self.styled = self.is_terminal and not dumb

    def write(self, text: str) -> None:
        """Write text at once, with control characters made visible on a terminal.

        Raises OutputGone, and OSError where the text cannot be written for another reason.
        """
        self.write_raw(visible(text) if self.is_terminal else text)

    def write_raw(self, text: str) -> None:
        """Write text of our own as it is, control sequences included."""
        # What no character set can hold (a lone surrogate) becomes an escape, not an exception.
        self._send(text.encode("utf-8", "backslashreplace"))

    def write_bytes(self, data: bytes) -> None:
        """Write encoded text, byte for byte in a pipe; as `write` on a terminal."""
        if self.is_terminal:
            self.write(data.decode("utf-8", "replace"))
        else:
            self._send(data)

    def _send(self, data: bytes) -> None:
        if self._stream is None:
            return
        self._stream.flush()
        descriptor, left = self._stream.fileno(), memoryview(data)
        while left:
            try:
                left = left[os.write(descriptor, left) :]
            except BlockingIOError:
                # A parent may have made the pipe non-blocking; the reader is slow, not gone.
                select.select([], [descriptor], [])
            except BrokenPipeError as error:
                raise OutputGone from error
