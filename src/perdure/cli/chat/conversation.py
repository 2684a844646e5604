"""The session that a chat is in: what is sent to it, and what its log says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import aclosing

import anyio
import msgspec
from anyio.abc import TaskGroup

from perdure.cli.asking import Sight
from perdure.cli.attaching import unless_refused, with_named
from perdure.cli.chat.live import Live, Waiting
from perdure.cli.chat.reporter import ChatReporter
from perdure.cli.chat.screen import Screen
from perdure.cli.choosing import Choice, choose
from perdure.cli.listing import session_head
from perdure.cli.models import surveyed
from perdure.config.load import load
from perdure.config.location import find_project
from perdure.errors import PerdureError
from perdure.history import events as ev
from perdure.history.standing import standing
from perdure.runtime import Runtime
from perdure.session.handle import Session
from perdure.store.contract import SessionRow

GO_ON = "Enter on an empty line goes on"


class Conversation:
    """At most one session at a time; there is none before the first prompt of a new one."""

    def __init__(
        self, runtime: Runtime, screen: Screen, sight: Sight, choice: Choice, group: TaskGroup
    ) -> None:
        self.runtime = runtime
        self.session: Session | None = None
        self.row: SessionRow | None = None
        self.model = ""
        self.reporter = ChatReporter(screen.say, Live())
        self._screen = screen
        self._sight = sight
        self._choice = choice
        self._group = group
        self._following = anyio.CancelScope()
        self._watching = False

    @property
    def live(self) -> Live:
        """What goes on right now."""
        return self.reporter.live

    @property
    def busy(self) -> bool:
        """Whether somebody works on the session."""
        return self._watching or self.live.open

    async def begin(self) -> None:
        """Open the session that was asked for, or find out what a new one would use.

        Raises as `perdure run` does for the same options.
        """
        choice = self._choice
        if choice.session or choice.again:
            await self.open(await choose(self.runtime, choice, "", self._screen))
        else:
            directory = choice.directory or "."
            self.model = await self.runtime.choose_model(directory, choice.model)

    async def open(self, session: Session) -> None:
        """Show where a session stands, and follow it from there."""
        self._leave()
        self.session = session
        state = await session.state()
        records: list[ev.Record] = []
        async with aclosing(session.events()) as found:
            async for record in found:
                if isinstance(record, ev.Record):
                    records.append(record)
                if record.seq == state.last_seq:
                    break
        self.reporter = reporter = ChatReporter(self._screen.say, Live())
        await self.look()
        self._show_last(standing(records))
        self.live.waiting = {
            each.prompt: Waiting(each.text, each.delivery, len(each.images))
            for each in state.pending.values()
        }
        if self.row is not None and not self.row.owner:
            self.live.rest()
            if state.pending or state.unread or state.step:
                reporter.note(f"something is left to do here; {GO_ON}", "warn")
        self._following = anyio.CancelScope()
        self._group.start_soon(self._follow, session, state.last_seq, self._following)

    def forget(self) -> None:
        """Leave the session; the next prompt begins a new one, in the same directory."""
        self._leave()
        if self.row is not None:
            self._choice = Choice(
                session=None, again=False, model=self.row.model, directory=self.row.directory
            )
        self.session = self.row = None
        self.reporter = ChatReporter(self._screen.say, Live())

    async def prefer(self, model: str) -> None:
        """Let a session that is still to begin use a model. Raises as `create_session`."""
        directory = self._choice.directory or "."
        self.model = await self.runtime.choose_model(directory, model)
        self._choice = msgspec.structs.replace(self._choice, model=model)

    async def models(self) -> list[str]:
        """Return the models that can be used here, as far as that is known without asking them."""
        directory = self.row.directory if self.row else self._choice.directory or "."
        config, location = load(directory, os.environ), find_project(directory)
        _, _, providers = await surveyed(config, location, self.runtime.plugins)
        return [offer.name for each in providers for offer in each.offers]

    async def send(self, text: str, delivery: ev.Delivery) -> None:
        """Admit a prompt, in a new session where there is none yet; durable when it returns."""
        session = self.session or await choose(self.runtime, self._choice, text, self._screen)
        async with unless_refused(self.runtime, session, begun=self.session is None):
            images = await with_named(session, text, (), self._screen)
        if self.session is None:
            await self.open(session)
        await session.prompt(text, images=images, delivery=delivery)
        self.watch()

    def go_on(self) -> None:
        """Let what waits, or was left undone, be worked on."""
        if self.session is not None:
            self.session.wake()
            self.watch()

    def watch(self) -> None:
        """Say what keeps a step from starting; no event tells it."""
        if self.session is not None and not self._watching:
            self._group.start_soon(self._watch, self.session)
            self._watching = True

    async def interrupt(self) -> None:
        """Stop what runs, whoever runs it; what waits is kept."""
        if self.session is None:
            return
        if not await self.session.interrupt():
            self.live.rest()
        if waiting := len(await self.session.inbox()):
            prompts = "1 prompt waits" if waiting == 1 else f"{waiting} prompts wait"
            self.reporter.note(f"{prompts}; {GO_ON}", "warn")

    async def settle(self) -> None:
        """Stop what runs here; settled when this returns."""
        self._leave()
        if self.session is not None:
            await self.session.interrupt(only_here=True)

    async def look(self) -> None:
        """Take notice of title, model and directory."""
        if self.session is not None:
            self.row = await self.session.row()
            self.model = self.row.model
            self._screen.refresh()

    def _show_last(self, records: Sequence[ev.Record]) -> None:
        """Show the last prompt and what came after it, below what the session is."""
        row = self.row
        assert row is not None  # noqa: S101 - looked at before
        self.reporter.put(session_head(row.title, row.id, row.model, row.directory))
        begin = _last_prompt(records)
        earlier = sum(isinstance(each.data, ev.PromptPromoted) for each in records[:begin])
        if earlier:
            words = "1 earlier prompt" if earlier == 1 else f"{earlier} earlier prompts"
            self.reporter.note(f"{words}; `perdure sessions show {row.id}` prints everything")
        for each in records[:begin]:
            if isinstance(each.data, ev.PromptAdmitted):
                self.reporter.show(each)
        for each in records[begin:]:
            self.reporter.show(each)

    async def _follow(self, session: Session, after: int, following: anyio.CancelScope) -> None:
        with following:
            try:
                async with aclosing(session.events(after=after)) as records:
                    async for record in records:
                        self.reporter.show(record)
                        self._sight.saw(record)
                        self._screen.refresh()
                        if isinstance(record.data, _ABOUT_THE_SESSION):
                            await self.look()
            except PerdureError as error:
                self.reporter.note(str(error), "bad")

    async def _watch(self, session: Session) -> None:
        try:
            await session.wait(only_here=True)
        except PerdureError as error:
            self.reporter.note(str(error), "bad")
        finally:
            self._watching = False
            self._screen.refresh()

    def _leave(self) -> None:
        self._following.cancel()


_ABOUT_THE_SESSION = (ev.SessionRenamed, ev.ModelSwitched, ev.SessionMoved)


def _last_prompt(records: Sequence[ev.Record]) -> int:
    """Return the index of the first of the prompts that were promoted last, together."""
    found = len(records)
    for index in range(len(records) - 1, -1, -1):
        if isinstance(records[index].data, ev.PromptPromoted):
            found = index
        elif found < len(records) and not isinstance(records[index].data, ev.PromptAdmitted):
            break
    return found
