"""The terminal of a chat: pages scroll by above, the prompt line stays below."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

import anyio
from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition, has_completions, is_done
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    FormattedTextControl,
    HSplit,
    Layout,
    VerticalAlign,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenuControl
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.search import stop_search
from prompt_toolkit.styles import Style as Looks
from prompt_toolkit.widgets import SearchToolbar

from perdure.cli.chat.completion import completes_by_itself
from perdure.cli.chat.keys import answer_keys, leaving_keys, line_keys
from perdure.cli.output import Output
from perdure.cli.page import Block, Words, line, show
from perdure.tools.printable import printable

_PLAIN = {
    "strong": "nobold",  # which prompt_toolkit would make bold
    "completion-menu.completion": "noreverse bg:default fg:default",
    "completion-menu.completion.current": "reverse",
    "completion-menu.meta.completion": "noreverse bg:default fg:default",
    "completion-menu.meta.completion.current": "reverse",
}
"""How things look where no colours are wanted: only what is chosen in a menu stands out."""

_STYLED = _PLAIN | {
    "strong": "bold",
    "dim": "dim",
    "good": "ansigreen",
    "warn": "ansiyellow",
    "bad": "ansired",
    "completion-menu.meta.completion": "noreverse bg:default fg:default dim",
}
_PAUSE = 0.04
"""Seconds between two writes: what comes in between is written together."""

_REDRAW = 0.5
"""Seconds after which rows that count seconds are drawn anew."""

_LINES = 10
_MENU = 6


class Question:
    """A question that stands on the screen; `answer` is empty until there is one."""

    def __init__(self, choices: str) -> None:
        self.choices = choices
        self.answer = ""
        self.answered = anyio.Event()


class Face(Protocol):
    """Whatever stands behind a screen: what it shows below the pages, and who hears the keys."""

    def rows(self, columns: int, height: int) -> Sequence[Words]:
        """Return the live rows, at most so many, each at most so wide."""
        ...

    def status(self) -> str:
        """Return the last row."""
        ...

    def typed(self, text: str) -> None:
        """Take what was typed and sent with Enter."""
        ...

    def stop(self) -> None:
        """Take notice of Ctrl-C where there is no question."""
        ...


class Screen:
    """Shows pages and live rows, and passes on what is typed."""

    def __init__(self, out: Output) -> None:
        self.out = out
        self._face: Face | None = None
        self._blocks: deque[Block] = deque()
        self._news = anyio.Event()
        self._question: Question | None = None
        self._asking = anyio.Lock()
        self._warned: set[str] = set()
        self._line = Buffer(
            multiline=True,
            complete_while_typing=Condition(self._completes),
            enable_history_search=False,
        )
        self._answer = Buffer(multiline=False)
        self._answer_control = BufferControl(
            self._answer, key_bindings=answer_keys(self._answered), focus_on_click=False
        )
        self._search = SearchToolbar()
        self._line_control = BufferControl(
            self._line,
            key_bindings=line_keys(self._typed),
            search_buffer_control=self._search.control,
            preview_search=True,
        )
        self._app: Application[None] = Application(
            layout=Layout(self._layout(), focused_element=self._line_control),
            key_bindings=leaving_keys(self._ctrl_c, self._ctrl_d),
            style=Looks.from_dict(_STYLED if out.styled else _PLAIN),
            # prompt_toolkit brings looks of its own, as for what a search has found.
            color_depth=None if out.styled else ColorDepth.MONOCHROME,
            # Without asking where the cursor is: an answer could come between what is typed.
            output=Vt100_Output(sys.stdout, _size, os.environ.get("TERM"), enable_cpr=False),
            min_redraw_interval=_PAUSE,
            erase_when_done=True,
        )
        self._app.ttimeoutlen = 0.05

    # What is shown.

    def say(self, blocks: Iterable[Block]) -> None:
        """Show blocks above the prompt line, soon."""
        self._blocks += blocks
        self.refresh()

    def warn(self, text: str) -> None:
        """Show what went wrong and does not end the chat; the same words only once.

        It may be called from any thread.
        """
        if text not in self._warned:
            self._warned.add(text)
            self._blocks.append(line(Words(f"warning: {printable(text)}", "warn")))

    def refresh(self) -> None:
        """Draw what has changed, soon."""
        self._news.set()

    def put(self, text: str) -> None:
        """Put text into the prompt line where nothing stands there; else only remember it."""
        if self._line.text:
            self._line.history.append_string(text)
        else:
            self._line.text = text
            self._line.cursor_position = len(text)
        self.refresh()

    # What is asked.

    async def ask(self, lines: Iterable[Block], choices: str) -> str:
        """Put a question and return what is answered; one question at a time.

        An empty answer and Ctrl-C are a "no". What stands in the prompt line is kept and comes
        back; cancelling takes the question back.
        """
        async with self._asking:
            self.say(lines)
            self.flush()
            self._question = question = Question(choices)
            self._answer.reset()
            self._app.layout.focus(self._answer_control)
            self.refresh()
            try:
                await question.answered.wait()
            finally:
                self._question = None
                self._app.layout.focus(self._line_control)
                self.say([line(Words(f"  {question.answer or 'no answer'}", "dim"))])
            return question.answer

    # The life of it.

    async def run(self, face: Face, history: History, completer: Completer) -> None:
        """Show the screen until `leave`; the terminal is as it was before when this returns.

        Raises EOFError when the terminal is gone.
        """
        self._face = face
        self._line.history = history
        self._line.completer = completer
        self._line.reset()
        async with anyio.create_task_group() as group:
            group.start_soon(self._draw)
            try:
                await self._app.run_async(handle_sigint=False, set_exception_handler=False)
            finally:
                self.flush()
            group.cancel_scope.cancel()

    def leave(self) -> None:
        """End `run`."""
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    def flush(self) -> None:
        """Write what waits to be shown, in one go with the rows below it."""
        blocks = [self._blocks.popleft() for _ in range(len(self._blocks))]
        shown = self._app.is_running and not self._app.is_done
        if shown:
            self._app.renderer.erase()
        show(self.out, blocks)
        if shown:
            # Rows are made once for each number: under the old one they would be those of before.
            self._app.render_counter += 1
            self._app.renderer.render(self._app, self._app.layout)

    async def _draw(self) -> None:
        while True:
            with anyio.move_on_after(_REDRAW):
                await self._news.wait()
            self._news = anyio.Event()
            if self._blocks:
                self.flush()
            else:
                self._app.invalidate()
            await anyio.sleep(_PAUSE)

    def _answered(self, text: str) -> None:
        if self._question is not None:
            self._question.answer = text.strip() or "no"
            self._question.answered.set()

    def _ctrl_c(self) -> None:
        if self._question is not None:
            self._answered("")
        elif self._app.layout.is_searching:
            stop_search()
        elif self._face is not None:
            self._face.stop()

    def clear_line(self) -> bool:
        """Empty the prompt line; return whether anything stood there."""
        stood = bool(self._line.text)
        self._line.reset()
        return stood

    def _ctrl_d(self) -> None:
        if self._question is not None:
            self._answered("")
        else:
            self.leave()

    def _typed(self, text: str) -> None:
        if self._face is not None:
            self._face.typed(text)

    def _completes(self) -> bool:
        return completes_by_itself(self._line.document.text_before_cursor)

    # How it looks.

    def _layout(self) -> HSplit:
        asking = Condition(lambda: self._question is not None)
        menu = Window(
            CompletionsMenuControl(), height=Dimension(max=_MENU), dont_extend_height=True
        )
        return HSplit(
            [
                Window(FormattedTextControl(self._live), dont_extend_height=True),
                ConditionalContainer(
                    Window(
                        self._answer_control,
                        height=1,
                        get_line_prefix=self._answer_prefix,
                    ),
                    asking,
                ),
                ConditionalContainer(
                    Window(
                        self._line_control,
                        height=Dimension(min=1, max=_LINES),
                        wrap_lines=True,
                        dont_extend_height=True,
                        get_line_prefix=_prefix,
                    ),
                    ~asking,
                ),
                self._search,
                ConditionalContainer(menu, has_completions & ~is_done & ~asking),
                Window(FormattedTextControl(self._last_row), height=1),
            ],
            align=VerticalAlign.TOP,
        )

    def _live(self) -> StyleAndTextTuples:
        size = self._app.output.get_size()
        if self._face is None:
            return []
        rows = self._face.rows(max(10, size.columns - 1), max(3, size.rows // 3))
        return [
            (f"class:{row.style}" if row.style else "", f"{'' if at == 0 else chr(10)}{row.text}")
            for at, row in enumerate(rows)
        ]

    def _last_row(self) -> StyleAndTextTuples:
        return [("class:dim", self._face.status() if self._face else "")]

    def _answer_prefix(self, _: int, wrapped: int) -> StyleAndTextTuples:
        choices = self._question.choices if self._question else ""
        return [] if wrapped else [("class:strong", f"{choices} ")]


def _size() -> Size:
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:  # the terminal is gone
        columns, rows = 0, 0
    return Size(rows=rows or 24, columns=columns or 80)


def _prefix(number: int, wrapped: int) -> StyleAndTextTuples:
    return [("class:good", "> ")] if number == 0 and wrapped == 0 else [("", "  ")]
