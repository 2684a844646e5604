"""A chat from the first key to the last: what is typed, what Ctrl-C means, how it ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from perdure.cli.chat.actions import COMMANDS, Actions
from perdure.cli.chat.completion import Completions
from perdure.cli.chat.conversation import Conversation
from perdure.cli.chat.history import InputHistory
from perdure.cli.chat.screen import Screen
from perdure.cli.chat.typed import Command, is_command, understood
from perdure.cli.page import Words
from perdure.config.location import find_project, shown
from perdure.errors import PerdureError
from perdure.tools.printable import shortened

_TITLE = 40


class Chat:
    """Joins a conversation and its commands to a screen. `code` is the exit code."""

    def __init__(self, conversation: Conversation, screen: Screen, group: TaskGroup) -> None:
        self.code = 0
        self._conversation = conversation
        self._screen = screen
        self._group = group
        self._actions = Actions(conversation, screen)
        self._typed, self._to_do = anyio.create_memory_object_stream[str](1000)
        self._leaving = False
        self._models: list[str] = []

    async def run(self, directory: Path) -> None:
        """Show the chat until somebody leaves it, and settle then what runs."""
        project = find_project(directory).project
        completions = Completions(
            {name: each.help for name, each in COMMANDS.items()},
            lambda: Path(row.directory) if (row := self._conversation.row) else directory,
            lambda: self._models,
        )
        await self._group.start(self._hear)
        self._group.start_soon(self._look_for_models)
        self._group.start_soon(self._do)
        try:
            await self._screen.run(self, InputHistory(project, os.environ), completions)
        except EOFError:  # the terminal is gone
            self.code = 128 + signal.SIGHUP
        finally:
            self._leaving = True
            with anyio.CancelScope(shield=True):
                await self._conversation.settle()

    def rows(self, columns: int, height: int) -> Sequence[Words]:
        """Return what goes on right now."""
        return self._conversation.live.rows(columns, height)

    def status(self) -> str:
        """Return one row about the session."""
        conversation = self._conversation
        facts = [conversation.model]
        if conversation.row is not None:
            facts.append(shortened(conversation.row.title, _TITLE))
        if conversation.reporter.context:
            facts.append(f"{conversation.reporter.context:,} tokens")
        facts.append("working; Ctrl-C stops it" if conversation.busy else "/help, Ctrl-D leaves")
        return shown(" · ".join(filter(None, facts)))

    def typed(self, text: str) -> None:
        """Take a prompt or a command; they are done in the order in which they were typed."""
        try:
            self._typed.send_nowait(text)
        except anyio.WouldBlock:
            self._complain("too much is waiting; this was not sent", text)

    def stop(self) -> None:
        """Interrupt what runs; with nothing running, empty the prompt line."""
        if self._conversation.busy:
            self._group.start_soon(self._interrupt)
        elif not self._screen.clear_line():
            self._conversation.reporter.note("nothing runs; Ctrl-D leaves")

    async def _do(self) -> None:
        async for text in self._to_do:
            try:
                await self._take(text)
            except PerdureError as error:
                self._complain(str(error), text)

    async def _take(self, text: str) -> None:
        if not text.strip():
            if not self._conversation.busy:
                self._conversation.go_on()
            return
        match understood(text, COMMANDS):
            case Command() as command:
                await self._actions.start(command, self._group)
            case str(prompt):
                await self._conversation.send(prompt, "steer")

    def _complain(self, reason: str, text: str) -> None:
        """Say why something was not done, and give a prompt back.

        A command is left to the history: what is typed next behind it would become a prompt.
        """
        self._conversation.reporter.note(reason, "bad")
        if not is_command(text):
            self._screen.put(text)

    async def _look_for_models(self) -> None:
        with suppress(PerdureError):  # /model says what is wrong
            self._models = await self._conversation.models()

    async def _interrupt(self) -> None:
        try:
            await self._conversation.interrupt()
        except PerdureError as error:
            self._conversation.reporter.note(str(error), "bad")

    async def _hear(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Leave when the system asks for it; at once where it asks again."""
        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        with anyio.open_signal_receiver(*numbers) as signals:
            task_status.started()
            async for number in signals:
                # A terminal that goes away may say so more than once.
                if self._leaving and number != signal.SIGHUP:
                    # What is still open is settled by the next one who works on the session.
                    os._exit(self.code or 128 + number)
                if number == signal.SIGINT:
                    self.stop()
                elif not self._leaving:
                    self.code = 128 + number
                    self._screen.leave()
