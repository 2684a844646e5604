"""Permission questions on a terminal."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Mapping
from typing import Literal

import anyio
import msgspec

from perdure.cli.output import visible
from perdure.cli.terminal import Terminal
from perdure.history.content import ToolCall
from perdure.history.events import AssistantMessage
from perdure.session.reading import AnyRecord
from perdure.tools.permissions import PermissionAnswer, PermissionRequest

_LINES = 40
"""Lines of a file's new text that are shown with a question; commands are always shown whole."""

_LONG = 200
_ALWAYS: Mapping[str, Literal["call", "tool"]] = {"always": "call", "tool": "tool"}
CHOICES = "[y/N, always, tool, or a reason]"
"""What can be answered to a permission question."""

_PATIENCE = 1.0
"""Seconds that a question waits for what the model said before it to be shown."""


def can_ask() -> bool:
    """Say whether somebody sits at standard input and sees standard error."""
    streams = (sys.stdin, sys.stderr)
    return all(stream is not None and stream.isatty() for stream in streams)


class Sight:
    """What of the answers is on the screen: a question comes after what the model said before."""

    def __init__(self) -> None:
        self._shown: frozenset[str] = frozenset()
        self._news = anyio.Event()

    def saw(self, record: AnyRecord) -> None:
        """Take notice that a record is on the screen."""
        if isinstance(record.data, AssistantMessage):
            calls = (part for part in record.data.parts if isinstance(part, ToolCall))
            self._shown = frozenset(call.id for call in calls)
            self._news.set()

    async def of(self, call: str) -> bool:
        """Wait until the answer with that call is on the screen; say whether it is.

        It waits not for long: the call may be that of a task, whose session is not shown.
        """
        with anyio.move_on_after(_PATIENCE):
            while call not in self._shown:
                self._news = anyio.Event()
                await self._news.wait()
        return call in self._shown


class Asker:
    """Asks whether a call may run: yes, no, or a reason for the model. One question at a time.

    `always` allows the same call in this project from now on, `tool` whatever that tool does.
    """

    def __init__(self, terminal: Terminal, turn: anyio.Lock) -> None:
        self._terminal = terminal
        self._turn = turn
        self._sight = Sight()
        self.saw = self._sight.saw

    async def __call__(self, request: PermissionRequest) -> PermissionAnswer:
        """Put the question and wait for the answer; cancelling it leaves it unanswered."""
        seen = await self._sight.of(request.call)
        async with self._turn:
            # What was typed before the question was on the screen is no answer to it.
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
            with self._terminal.question(
                details(request), f"{asked(request, seen=seen)} {CHOICES}"
            ):
                return answer_of(await _read_line())


async def _read_line() -> str:
    """Return the next line from the terminal; empty when it was closed."""
    descriptor = sys.stdin.fileno()
    await anyio.wait_readable(descriptor)
    return os.read(descriptor, 4096).decode("utf-8", "replace")


def asked(request: PermissionRequest, *, seen: bool) -> str:
    """Return the question in one line; it names the session whose answer is not on the screen."""
    where = "" if seen else f" in session {request.session}"
    return f"Allow{where} {request.summary}?"


def answer_of(line: str) -> PermissionAnswer:
    """Return the answer that a typed line is; an empty one declines."""
    word = line.strip()
    if word.lower() in {"y", "yes"}:
        return PermissionAnswer(allowed=True)
    if always := _ALWAYS.get(word.lower()):
        return PermissionAnswer(allowed=True, always=always)
    return PermissionAnswer(allowed=False, reason="" if word.lower() in {"n", "no"} else word)


def details(request: PermissionRequest) -> list[str]:
    """Return what the one line of the question leaves out."""
    match request.tool, request.arguments:
        case "shell", {"command": str(command)}:
            return _lines(command) if "\n" in command or len(command) > _LONG else []
        case "write", {"content": str(content)}:
            return _some(_lines(content, "+ "))
        case "edit", {"old": str(old), "new": str(new)}:
            return [*_some(_lines(old, "- ")), *_some(_lines(new, "+ "))]
        case "apply_patch", {"patch": str(patch)}:
            return _some(_lines(patch))
        case _:
            whole = msgspec.json.encode(request.arguments).decode()
            return _lines(whole) if len(request.summary) > _LONG else []


def _lines(text: str, mark: str = "") -> list[str]:
    return [f"{mark}{each}" for each in visible(text).splitlines()]


def _some(lines: list[str]) -> list[str]:
    more = len(lines) - _LINES
    return lines if more <= 0 else [*lines[:_LINES], f"... {more} more lines"]
