"""The last that a server said where nobody listens: its standard error, and what is no message."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from perdure.tools.printable import printable, shortened

_LINES = 50
_LONGEST = 500
_SHORTEST_SECRET = 6  # shorter values, such as a flag, are in every other line


class Tail:
    """Keeps the last lines, printable, with secrets left out."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        long_enough = {each for each in secrets if len(each) >= _SHORTEST_SECRET}
        self._secrets = sorted(long_enough, key=len, reverse=True)
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._rest = b""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines, the oldest first."""
        return tuple(self._lines)

    def feed(self, piece: bytes) -> None:
        """Take a piece of a stream of lines."""
        *whole, rest = (self._rest + piece).split(b"\n")
        for line in whole:
            self.note(line)
        self._rest = rest[: 4 * _LONGEST]

    def note(self, line: bytes) -> None:
        """Take one line."""
        if text := self.masked(line.decode("utf-8", "replace").strip()):
            self._lines.append(shortened(printable(text), _LONGEST))

    def masked(self, text: str) -> str:
        """Return the text without the secrets that the server was given."""
        for secret in self._secrets:
            text = text.replace(secret, "[secret]")
        return text
