"""What a person sees beside the answer: calls, warnings, a line of progress."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from typing import Protocol

import anyio

from perdure.background import background
from perdure.cli.output import Output
from perdure.tools.printable import legible, printable

_CLEAR_LINE = "\r\x1b[2K"
_REDRAW = 0.5
_QUIET = 1.0
"""Seconds of waiting before the line of progress appears."""

_BOLD, _DIM, _RED, _YELLOW, _RESET = "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m", "\x1b[0m"


class Terminal:
    """Standard error beside an answer on standard output; both may be the same terminal.

    In a pipe everything is plain lines, and there is no line of progress.
    """

    def __init__(self, out: Output, err: Output) -> None:
        self._out = out
        self._err = err
        self._line_open = False
        self._progress_shown = False
        self._waiting = ""
        self._detail = ""
        self._since = 0.0
        self._warned: set[str] = set()

    def words(self, text: str) -> None:
        """Write words of the answer on standard output. Raises OutputGone."""
        if text:
            self._hide_progress()
            self._out.write(text)
            self._line_open = not text.endswith("\n")

    def end_line(self) -> None:
        """End the line of the answer, if one is open."""
        if self._line_open:
            self._out.write("\n")
            self._line_open = False

    def note(self, text: str) -> None:
        """Show what happened beside the answer."""
        self._write(self._styled(printable(text), _DIM))

    def warn(self, text: str) -> None:
        """Show what went wrong and does not end the run; the same words only once."""
        if text not in self._warned:
            self._warned.add(text)
            self._write(self._styled(f"warning: {printable(text)}", _YELLOW))

    def call(self, summary: str) -> None:
        """Show that a tool call begins."""
        name, colon, about = printable(summary).partition(":")
        self._write(self._styled(f"* {name}", _BOLD) + colon + about)

    def result(self, lines: Iterable[str], *, failed: bool) -> None:
        """Show what a tool call gave."""
        for each in lines:
            self._write(self._styled(f"  {printable(each)}", _RED if failed else _DIM))

    def wait_for(self, what: str) -> None:
        """Say in the line of progress what is waited for from now on; empty for nothing."""
        self._hide_progress()
        self._waiting, self._detail, self._since = what, "", time.monotonic()

    def progress(self, detail: str) -> None:
        """Say in the line of progress how far it is."""
        self._detail = detail

    async def show_progress(self) -> None:
        """Keep the line of progress drawn, until cancelled."""
        if not self._err.styled:
            return
        try:
            while True:
                self._draw_progress()
                await anyio.sleep(_REDRAW)
        finally:
            self._hide_progress()

    @contextmanager
    def question(self, lines: Iterable[str], text: str) -> Generator[None]:
        """Put a question on the screen; whoever opens the context reads the answer within it."""
        self.wait_for("")
        for each in lines:
            self._write(f"  {legible(each)}")
        self._end_line_on_screen()
        self._err.write_raw(f"{self._styled(printable(text), _BOLD)} ")
        try:
            yield
        except BaseException:
            self._err.write_raw("\n")
            raise

    def _write(self, text: str) -> None:
        self._hide_progress()
        self._end_line_on_screen()
        self._err.write_raw(f"{text}\n")

    def _end_line_on_screen(self) -> None:
        # In a pipe the answer and these lines do not stand on the same screen.
        if self._out.is_terminal:
            self.end_line()

    def _draw_progress(self) -> None:
        waited = time.monotonic() - self._since
        if not self._waiting or waited < _QUIET or (self._line_open and self._out.is_terminal):
            return
        text = f"... {self._waiting} ({waited:.0f} s) {self._detail}"
        columns = shutil.get_terminal_size().columns
        cut = printable(text.strip())[: columns - 1]
        self._err.write_raw(f"{_CLEAR_LINE}{self._styled(cut, _DIM)}")
        self._progress_shown = True

    def _hide_progress(self) -> None:
        if self._progress_shown:
            self._err.write_raw(_CLEAR_LINE)
            self._progress_shown = False

    def _styled(self, text: str, look: str) -> str:
        return f"{look}{text}{_RESET}" if self._err.styled else text


def noted(text: str) -> None:
    """Say on standard error what a command did."""
    Terminal(Output(sys.stdout), Output(sys.stderr)).note(text)


@asynccontextmanager
async def waiting_for(what: str) -> AsyncGenerator[None]:
    """Keep a line of progress on a terminal while the context is open."""
    terminal = Terminal(Output(sys.stdout), Output(sys.stderr))
    terminal.wait_for(what)
    async with background() as group:
        group.start_soon(terminal.show_progress)
        yield


class Warned(Protocol):
    """Whatever shows warnings."""

    def warn(self, text: str) -> None:
        """Show what went wrong and does not end the work."""
        ...


class Warnings(logging.Handler):
    """Shows the warnings of Perdure's parts on a terminal while its context is open."""

    def __init__(self, terminal: Warned) -> None:
        super().__init__(logging.WARNING)
        self._terminal = terminal
        self._logger = logging.getLogger("perdure")

    def __enter__(self) -> None:
        self._logger.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Show one warning; what has a traceback is a defect, and told when the run ends."""
        if not record.exc_info:
            self._terminal.warn(record.getMessage())
