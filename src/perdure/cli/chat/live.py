"""What goes on right now: the rows between what is said and the prompt line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from perdure.cli.chat.folding import named
from perdure.cli.chat.markdown import Blocks
from perdure.cli.output import visible
from perdure.cli.page import Style, Words
from perdure.history.content import ToolCall
from perdure.history.events import Delivery
from perdure.tools.printable import printable

_THOUGHTS = 2000
"""Characters of reasoning that are kept while it streams."""

_QUIET = 1.0
"""Seconds of waiting before a row says so."""


class Waiting(msgspec.Struct, frozen=True):
    """A prompt in the inbox."""

    text: str
    delivery: Delivery
    images: int = 0

    @property
    def attached(self) -> str:
        """How many images go with it, in words."""
        return f"({self.images} image{'' if self.images == 1 else 's'})" if self.images else ""


class Running(msgspec.Struct):
    """A call that was started; `progress` is the last line of its output so far."""

    call: ToolCall
    since: float
    progress: str = ""


class Live:
    """What a session does, as far as its records tell.

    `open` says that a step or a compaction has begun and is not settled.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.blocks = Blocks()
        self.thoughts = ""
        self.running: dict[str, Running] = {}
        self.waiting: dict[str, Waiting] = {}
        self.open = False
        self._doing = ""
        self._since = 0.0
        self._monotonic = monotonic

    def wait_for(self, what: str) -> None:
        """Say what is waited for from now on; empty for nothing."""
        self._doing, self._since = what, self._monotonic()

    def think(self, text: str) -> None:
        """Take more of the model's reasoning."""
        self.thoughts = (self.thoughts + text)[-_THOUGHTS:]

    def start(self, call: ToolCall) -> None:
        """Take notice that a call runs."""
        self.running[call.id] = Running(call, self._monotonic())

    def rest(self) -> None:
        """Forget what ran: nobody works any more. What waits stays."""
        self.running.clear()
        self.thoughts = ""
        self.open = False
        self.wait_for("")

    def rows(self, columns: int, height: int) -> list[Words]:
        """Return at most `height` rows, each cut to so many columns; the latest text stays."""
        below = [*self._calls(), *self._waits()][-max(1, height - 1) :]
        text = self._text(columns, max(1, height - len(below)))
        rows = [*text, *(_cut(row, columns) for row in below)]
        return rows[-height:]

    def _text(self, columns: int, height: int) -> list[Words]:
        text, style = self.blocks.tail(columns * height), _PLAIN
        if not text.strip():
            text, style = self.thoughts, _DIM
        rows = [row for each in visible(text).split("\n") for row in _wrapped(each, columns)]
        while rows and not rows[-1].strip():
            rows.pop()
        return [Words(row, style) for row in rows[-height:]]

    def _calls(self) -> Iterator[Words]:
        for each in self.running.values():
            ran = f" ({seconds:.0f} s)" if (seconds := self._monotonic() - each.since) >= 1 else ""
            about = f"… {named(each.call)}{ran}"
            yield Words(f"{about} {each.progress}" if each.progress else about, "dim")
        waited = self._monotonic() - self._since
        if self._doing and not self.running and waited >= _QUIET:
            yield Words(f"… {printable(self._doing)} ({waited:.0f} s)", "dim")

    def _waits(self) -> Iterator[Words]:
        for each in self.waiting.values():
            how = "waits" if each.delivery == "steer" else "queued"
            text = printable(" ".join(f"{each.attached} {each.text}".split()))
            yield Words(f"{how}: {text}", "warn")


_PLAIN: Style = ""
_DIM: Style = "dim"


def _wrapped(text: str, columns: int) -> list[str]:
    # rich is slow to import, and only a chat needs this.
    from rich.cells import chop_cells

    return chop_cells(text.expandtabs(4), columns) or [""]


def _cut(row: Words, columns: int) -> Words:
    return Words(_wrapped(row.text, columns)[0], row.style)
