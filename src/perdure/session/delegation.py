"""Tasks: work that a tool call gives to a session of its own.

The ids of that session and of its prompt follow from the call. So a call that is run again after a
crash finds the session that it began, wakes it where it has work left, and takes its answer;
nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing, suppress
from functools import partial

import anyio
import msgspec

from perdure.clock import derived_id
from perdure.config.location import Location
from perdure.errors import ConcurrencyError, PerdureError, PromptConflict, SessionNotFound
from perdure.history import events as ev
from perdure.history.content import StopReason, ToolCall, words_of
from perdure.history.state import SessionState
from perdure.session.changes import Changes
from perdure.session.feed import Feed
from perdure.session.reading import AnyRecord, EventReader
from perdure.session.workers import Workers
from perdure.store.contract import Store
from perdure.tools.base import Delegate, Delegated
from perdure.tools.permissions import question
from perdure.tools.printable import shortened

INSTRUCTIONS = (
    "You work on a task that another session gave you. Nobody reads along and nobody answers "
    "questions: decide for yourself what the task leaves open, and say so. Your last message is "
    "the result. It is all that comes back, so put everything into it that was asked for."
)
"""Follows the opening instructions of the session that gave the task."""

_AT_ONCE = 8
"""Tasks that one process works on at a time; further ones wait, whichever sessions gave them."""

_SETTLING = 15.0
"""Seconds in which an interrupted task must be settled: more than its drain takes at most."""

_WIDTH = 160
"""Characters of a tool call of the task that are shown live."""


def task_session(session: str, step: int, call: str) -> str:
    """Return the id of the session that works on the task of a call.

    A fork and an import under another id have other sessions for the same calls, since their own
    id is part of it; so has a call id that comes again in a later step.
    """
    return derived_id("task", session, str(step), call)


def task_prompt(child: str) -> str:
    """Return the id of the prompt with which a session that works on a task begins."""
    return derived_id("prompt", child)


class TaskCall(msgspec.Struct, frozen=True):
    """The call that gives a task, and what the session that works on it takes over.

    `marker` is the random word of the session that gives it.
    """

    session: str
    step: int
    call: str
    model: str
    marker: str
    instructions: str
    location: Location

    @property
    def child(self) -> str:
        """The id of the session that works on the task."""
        return task_session(self.session, self.step, self.call)

    @property
    def prompt(self) -> str:
        """The id of its prompt."""
        return task_prompt(self.child)

    def beginning(self, title: str, prompt: str) -> tuple[ev.SessionCreated, ev.PromptAdmitted]:
        """Return the events with which the session begins."""
        created = ev.SessionCreated(
            directory=str(self.location.directory),
            project=str(self.location.project),
            model=self.model,
            marker=derived_id("marker", self.marker, self.child),
            title=title,
            instructions="\n\n".join(filter(None, (self.instructions, INSTRUCTIONS))),
            parent=self.session,
            call=self.call,
        )
        return created, ev.PromptAdmitted(self.prompt, prompt)


class Delegation:
    """Lets the sessions of this process work on tasks, and waits for what comes of them."""

    def __init__(self, store: Store, feed: Feed, workers: Workers, owner: str) -> None:
        self._store = store
        self._feed = feed
        self._workers = workers
        self._owner = owner
        self._room = anyio.CapacityLimiter(_AT_ONCE)

    def of_call(
        self, state: SessionState, location: Location, call: str, show: Callable[[str], None]
    ) -> Delegate | None:
        """Return what a call of the open step gives a task with; None in a task's own session."""
        if state.task or state.step is None:
            return None
        started = state.step.started
        task = TaskCall(
            state.session,
            started.step,
            call,
            started.model,
            state.marker,
            state.instructions,
            location,
        )
        return partial(self._give, task, show)

    async def _give(
        self, task: TaskCall, show: Callable[[str], None], title: str, prompt: str
    ) -> Delegated:
        async with self._room:
            try:
                await self._begin(task, *task.beginning(title, prompt))
                self._workers.wake(task.child)
                found = await self._watch(task, show)
            except anyio.get_cancelled_exc_class():
                with anyio.move_on_after(_SETTLING, shield=True):
                    await self._give_up(task)
                raise
            if found.problem:
                await self._withdraw(task)
            return found

    async def _begin(
        self, task: TaskCall, created: ev.SessionCreated, admitted: ev.PromptAdmitted
    ) -> None:
        try:
            await self._store.create(task.child, [created, admitted])
        except ConcurrencyError:
            records = await self._store.events(task.child, limit=2)
            match [record.data for record in records]:
                case [ev.SessionCreated(parent=task.session, call=task.call), it] if it == admitted:
                    return
                case _:
                    raise ConcurrencyError(
                        f"session {task.child} is there already and has another task; delete it, "
                        "or call for the task once more"
                    ) from None

    async def _watch(self, task: TaskCall, show: Callable[[str], None]) -> Delegated:
        watch = _Watch(show)
        reader = EventReader(task.child, self._store, self._feed, self._workers)
        try:
            async with aclosing(reader.of_prompt(task.prompt, 0)) as records:
                async for record in records:
                    watch.see(record)
        except PerdureError as error:
            return Delegated(task.child, watch.answer, f"the task could not go on: {error}")
        return Delegated(task.child, watch.answer, watch.problem())

    async def _give_up(self, task: TaskCall) -> None:
        """Interrupt the work on a task, unless another process has taken over who gave it.

        That process waits for the same result, and needs what is done here as much as its own.
        """
        with suppress(PerdureError):
            if (await self._store.session(task.session)).owner != self._owner:
                return
        await self._workers.interrupt(task.child, only_here=True)
        await self._withdraw(task)

    async def _withdraw(self, task: TaskCall) -> None:
        """Take the prompt back where it still waits: nobody would read an answer to it."""
        with suppress(PromptConflict, SessionNotFound):
            changes = Changes(task.child, self._store, self._feed)
            await changes.write(ev.PromptWithdrawn(task.prompt))


class _Watch:
    """What is known of the work on a task, from its records so far."""

    def __init__(self, show: Callable[[str], None]) -> None:
        self.answer = ""
        self._show = show
        self._calls: dict[str, ToolCall] = {}
        self._stop: StopReason = "end"
        self._finished: ev.StepFinished | None = None
        self._interrupted = False

    def see(self, record: AnyRecord) -> None:
        """Take in the next record; show each tool call that begins."""
        match record.data:
            case ev.AssistantMessage(parts=parts, stop=stop):
                self.answer = words_of(parts)
                self._calls = {part.id: part for part in parts if isinstance(part, ToolCall)}
                self._stop = stop
            case ev.ToolStarted(call=call) if call in self._calls:
                about = question("", self._calls[call]).summary
                self._show(f"{shortened(about, _WIDTH)}\n")
            case ev.StepFinished():
                self._finished = record.data
            case ev.DrainInterrupted():
                self._interrupted = True
            case _:
                pass

    def problem(self) -> str:
        """Return why the answer is no result, empty where it is one."""
        finished = self._finished
        if finished is None:
            return "the task was interrupted before it began"
        match "interrupted" if self._interrupted else finished.outcome:
            case "completed" if self._calls:
                return "the task reached its step limit before it was done"
            case "completed" if self._stop == "length":
                return "the result of the task was cut off: it is longer than an answer can be"
            case "completed":
                return ""
            case "failed":
                message = finished.failure.message if finished.failure else "nobody knows why"
                return f"the task failed: {message}"
            case "declined":
                return "the task ended because the user declined a tool call of it"
            case _:
                return "the task was interrupted; it may be done in part"
