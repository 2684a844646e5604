"""The embedding API of one session."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from perdure.clock import Ids
from perdure.config.location import find_project
from perdure.context.compare import same
from perdure.errors import ImageRefused, PerdureError, PromptConflict, UsageError
from perdure.exchange import exported, write_export
from perdure.history import events as ev
from perdure.history.content import Image, MediaType
from perdure.history.items import Item
from perdure.history.state import Pending, SessionState, fold
from perdure.images import listed
from perdure.models.resolve import Models
from perdure.session.attaching import attached, image_kinds
from perdure.session.attempts import error_of
from perdure.session.caching import CacheReport, cache_report
from perdure.session.changes import Changes, delivery_of, unicode_text, whole_number
from perdure.session.coordinator import Coordinator
from perdure.session.drain import Equipment
from perdure.session.fork import fork
from perdure.session.inbox import PendingPrompt, pending_prompts
from perdure.session.reading import AnyRecord, EventReader
from perdure.session.replay import request_body
from perdure.session.revert import revert
from perdure.session.spending import PrefixPrice, Spending, prefix_price, spending_of
from perdure.session.transcript import transcript
from perdure.session.view import ContextView, view_context, view_told
from perdure.sources import check_entry
from perdure.store.contract import SessionRow


class Admission(msgspec.Struct, frozen=True):
    """A Prompt that is durable in the inbox. `seq` is that of its admission."""

    id: str
    seq: int


class Session:
    """One durable session. Cheap to hold: it keeps nothing but its id."""

    def __init__(
        self, session: str, equipment: Equipment, coordinator: Coordinator, ids: Ids
    ) -> None:
        self.id = session
        self._store = equipment.store
        self._equipment = equipment
        self._coordinator = coordinator
        self._ids = ids
        self._changes = Changes(session, equipment.store, equipment.feed)

    async def prompt(
        self,
        text: str,
        *,
        images: Iterable[Image | str | Path] = (),
        id: str | None = None,  # noqa: A002 - the id of the prompt, as every client knows it
        delivery: ev.Delivery = "steer",
        hold: bool = False,
        wake: bool = True,
    ) -> Admission:
        """Admit a Prompt; it is durable when this returns, and a drain starts by itself.

        The same `id` again returns the first admission and admits nothing; an id that is used in
        another session raises PromptConflict. `delivery` is `steer` (promoted at the next
        boundary) or `queue` (when the session would otherwise be idle). With `hold`, a queued
        Prompt is left to this runtime, and to its permissions, while it lives. Without `wake`,
        only a drain that runs already, here or in another process, takes it; else it waits.
        `images` go with the text: paths, relative to the Location, or Images. ImageRefused where
        one cannot be taken, or where the session's model takes none.
        """
        prompt = self._ids.new() if id is None else _prompt_id(id)
        pictures = await self._pictures(prompt, images)
        if not unicode_text(text, "prompt").strip() and not pictures:
            raise UsageError("the prompt is empty; write what the model should do")
        holder = self._equipment.owner if hold else ""
        if hold:
            self._coordinator.holds(self.id)
        admitted = ev.PromptAdmitted(prompt, text, delivery_of(delivery), holder, pictures)
        try:
            record = await self._changes.write(admitted)
        except PromptConflict:
            admission = await self._first_admission(prompt)
        else:
            admission = Admission(prompt, record.seq)
        if wake:
            self._coordinator.wake(self.id)
        return admission

    async def image_kinds(self) -> tuple[MediaType, ...]:
        """Return the media types of images that the model of the next step takes; empty for none.

        That is what is known and configured. Raises UnknownProvider, UnknownModel,
        ConfigurationError and DirectoryNotFound.
        """
        row = await self.row()
        return await image_kinds(self._equipment.workplaces, row.directory, row.model)

    async def inbox(self) -> list[PendingPrompt]:
        """Return the pending Prompts, in the order in which they are promoted.

        Steering ones come first, then queued ones, each in the order of their admission.
        """
        return pending_prompts(self.id, await self._store.events(self.id))

    async def redeliver(self, prompt: str, delivery: ev.Delivery, *, wake: bool = True) -> None:
        """Change how a pending Prompt is promoted; durable when it returns.

        One that steers now joins the work that goes on, whoever holds it, or starts a drain where
        there is none; without `wake` it waits there. Setting the delivery that it has changes
        nothing. PromptConflict where it is not pending in this session.
        """
        wanted = delivery_of(delivery)

        def redeliver(state: SessionState) -> ev.Event | None:
            known = self._pending(state, prompt).delivery == wanted
            return None if known else ev.PromptDeliveryChanged(prompt, wanted)

        await self._changes.decide(redeliver)
        if wake and wanted == "steer":
            self._coordinator.wake(self.id)

    async def withdraw(self, prompt: str) -> None:
        """Take a pending Prompt back; PromptConflict where it is not pending in this session."""

        def withdraw(state: SessionState) -> ev.Event:
            return ev.PromptWithdrawn(self._pending(state, prompt).prompt)

        await self._changes.decide(withdraw)

    async def events(
        self, *, after: int = 0, until_idle: bool = False, prompt: str | None = None
    ) -> AsyncGenerator[AnyRecord]:
        """Yield every durable event with a seq above `after` exactly once and in order, then live.

        Live fragments have no seq. `until_idle` ends the iteration when all is read and nobody
        works on the session; what kept a step from starting is raised then. `prompt` yields from
        the promotion of that prompt to its settlement, and ends there.
        """
        whole_number(after, "cursor `after`")
        reader = EventReader(self.id, self._store, self._equipment.feed, self._coordinator)
        if prompt is None:
            records = reader.follow(after, until_idle=until_idle)
        else:
            records = reader.of_prompt(prompt, after)
        try:
            async for record in records:
                yield record
        finally:
            await records.aclose()

    async def messages(self, *, system: bool = False) -> list[Item]:
        """Return the whole durable history in order; System Messages only with `system`."""
        return transcript(await self._store.events(self.id), system=system)

    def wake(self) -> None:
        """Go on with what waits in the session or was left undone; returns at once.

        A drain starts by itself where there is anything to do, as after a prompt.
        """
        self._coordinator.wake(self.id)

    async def wait(self, *, only_here: bool = False) -> None:
        """Wait until nobody works on the session; with `only_here`, until this process does not.

        Cancelling it does not cancel the work. Raises what kept the last step from starting.
        """
        if only_here:
            await self._coordinator.wait(self.id)
            if (failure := self._coordinator.failure(self.id)) is not None:
                raise failure
            return
        after = await self._store.version(self.id)
        reader = EventReader(self.id, self._store, self._equipment.feed, self._coordinator)
        async with aclosing(reader.follow(after, until_idle=True, live=False)) as records:
            async for _ in records:
                pass

    async def interrupt(self, *, only_here: bool = False) -> bool:
        """Stop the work on the session, whoever does it; return whether anybody did.

        What this process does, or waits to do, has stopped and is settled when this returns. A
        drain in another process is asked to stop, which is durable then; it does so within a
        moment, and `wait` waits for it. With `only_here` others go on. Pending prompts stay.
        Idempotent.
        """
        return await self._coordinator.interrupt(self.id, only_here=only_here)

    async def rename(self, title: str) -> None:
        """Give the session another title; durable when it returns."""
        await self._changes.write(ev.SessionRenamed(unicode_text(title, "title")))

    async def switch_model(self, model: str) -> None:
        """Use another model from the next step on, which starts a new Context Epoch.

        Switching away and back with no step between changes nothing. Raises UnknownProvider and
        UnknownModel.
        """
        directory = (await self.state()).directory
        wanted = unicode_text(model, "model")
        name = (await self._equipment.workplaces.at(directory)).target(wanted).name

        def switch(state: SessionState) -> ev.Event | None:
            return None if name == state.model else ev.ModelSwitched(name)

        await self._changes.decide(switch)

    async def move(self, directory: str | Path) -> None:
        """Work in another Location from the next step on; DirectoryNotFound where there is none.

        Its instructions, tools and environment are found anew at the next boundary. A step that
        runs still ends where it began.
        """
        location = find_project(directory)
        await self._equipment.workplaces.at(location.directory)
        directory, project = str(location.directory), str(location.project)

        def move(state: SessionState) -> ev.Event | None:
            return None if directory == state.directory else ev.SessionMoved(directory, project)

        await self._changes.decide(move)

    async def set_entry(self, name: str, value: Any) -> None:
        """Set a session entry to a JSON value (null is a value); it is told at the next boundary.

        Setting the value that it has changes nothing. Raises UsageError where name or value cannot
        be an entry, or the value exceeds 8 KiB of JSON.
        """
        plain = check_entry(unicode_text(name, "name of the entry"), value)

        def set_it(state: SessionState) -> ev.Event | None:
            known = name in state.entries and same(state.entries[name], plain)
            return None if known else ev.EntrySet(name, plain)

        await self._changes.decide(set_it)

    async def remove_entry(self, name: str) -> None:
        """Remove a session entry; that it is gone is told at the next boundary."""

        def remove(state: SessionState) -> ev.Event:
            if unicode_text(name, "name of the entry") not in state.entries:
                raise UsageError(f"session {self.id} has no entry {name!r}")
            return ev.EntryRemoved(name)

        await self._changes.decide(remove)

    async def compact(self) -> bool:
        """Put a summary in the place of the older history; return whether that was done.

        It runs before the next step, or at once when the session is idle. Raises the failure where
        a summary could not be made; the history is as it was then.
        """
        after = await self._store.version(self.id)
        await self._changes.write(ev.CompactionAsked())
        self._coordinator.wake(self.id)
        async for record in self.events(after=after, until_idle=True):
            if isinstance(record.data, ev.CompactionFinished):
                return True
            if isinstance(record.data, ev.CompactionFailed):
                raise error_of(record.data.failure)
        return False

    async def fork(self, at: int | str | None = None) -> Session:
        """Begin a session that is a copy of this one up to a message; durable when it returns.

        `at` is the last message that is copied: the seq of its event, or the id of a prompt that is
        in the history; without it, all is copied. Inside a step that is not over there, the copy
        ends before the step. The copy begins its requests with the same bytes, so it is served from
        the same provider cache. Pending prompts are not copied, and it starts nothing by itself.
        Raises UsageError where `at` is no message.
        """
        place = None if at is None else _message(at)
        copy = await fork(self._equipment, self._ids, self.id, place)
        return Session(copy, self._equipment, self._coordinator, self._ids)

    async def revert(self, to: int | str) -> None:
        """Cut the history behind a message off from what the model sees; durable when it returns.

        `to` is as `at` of `fork`. The log keeps everything, and no file is touched. Model,
        Location, title, entries and the inbox stay as they are now. It starts nothing by itself.
        Raises UsageError where `to` is no message of the history, ConcurrencyError while somebody
        works on the session.
        """
        await revert(self._coordinator.write_alone, self.id, _message(to))

    async def export(self, file: str | Path) -> Path:
        """Write the session with its stored outputs into one file, and return its path.

        It is durable when this returns, readable by its owner only, and takes the place of a file
        that is there already; being cancelled takes effect after that. What is being worked on is
        in it as far as it had come. Prompts, outputs and the values of Context Sources are in
        clear. Raises UsageError where there can be no such file, PerdureError where it cannot be
        written, StoreDamaged where the log makes no sense; the older file stays then.
        """
        blocks = exported(self.id, await self._store.events(self.id), self._outputs)
        return await anyio.to_thread.run_sync(partial(write_export, file, blocks))

    async def exported(self) -> AsyncGenerator[bytes]:
        """Yield, block by block, the bytes that `export` writes, for what is no file."""
        blocks = exported(self.id, await self._store.events(self.id), self._outputs)
        while block := await anyio.to_thread.run_sync(next, blocks, b""):
            yield block

    async def context(self, *, at: int | None = None) -> ContextView:
        """Return what the model has been told, beside what holds now; observes, admits nothing.

        With `at`, return what it had been told at that seq, and observe nothing. Raises UsageError
        where the log has no such seq.
        """
        records = await self._store.events(self.id)
        if at is not None:
            if not 1 <= whole_number(at, "event `at`") <= len(records):
                raise UsageError(
                    f"session {self.id} has no event {at}; its log ends at {len(records)}"
                )
            return view_told(self.id, records[:at])
        state = fold(self.id, records)
        workplace = await self._equipment.workplaces.at(state.directory)
        return await view_context(self.id, records, workplace)

    async def cache(self) -> CacheReport:
        """Return how the provider's prompt cache served the session, request by request.

        It is read from the log and changes nothing; prices are found as in `spending`.
        """
        records = await self._store.events(self.id)
        models = await self._models((await self.row()).directory)
        return await anyio.to_thread.run_sync(cache_report, self.id, records, models)

    async def spending(self) -> Spending:
        """Return what the session has spent, by the tokens that providers counted.

        A price that the configuration of its Location sets counts before all others; no connection
        is opened to find one. Where that configuration cannot be read, no price is known.
        """
        records = await self._store.events(self.id)
        models = await self._models((await self.row()).directory)
        return await anyio.to_thread.run_sync(spending_of, records, models)

    async def prefix_price(
        self, *, model: str | None = None, compaction: bool = False
    ) -> PrefixPrice:
        """Return about what it would cost to break the prefix of the session's requests now.

        With `model`, by a switch to that one; with `compaction`, by a summary; with neither, by
        anything else that begins a Context Epoch, such as another set of tools. Nothing is changed.
        """
        state = await self.state()
        models, now = await self._models(state.directory), self._equipment.clock.now()
        look = partial(prefix_price, model=model, compaction=compaction)
        return await anyio.to_thread.run_sync(look, state, models, now)

    async def _models(self, directory: str) -> Models | None:
        """Return the models that are configured for a directory; None where that cannot be read."""
        try:
            return (await self._equipment.workplaces.at(directory)).models
        except PerdureError:
            return None

    async def request(self, step: int | None = None) -> bytes:
        """Return the exact request body of a step, by default the last; UsageError if none."""
        if step is not None:
            whole_number(step, "step")
        protocols = self._equipment.workplaces.protocols
        return request_body(self.id, await self._store.events(self.id), protocols, step)

    async def row(self) -> SessionRow:
        """Return the session as listings show it."""
        return await self._store.session(self.id)

    async def children(self) -> list[SessionRow]:
        """Return the sessions of the tasks that this one gave, oldest first."""
        own = [row for row in await self._store.sessions() if row.parent == self.id]
        return sorted(own, key=lambda row: (row.created, row.id))

    async def state(self) -> SessionState:
        """Return the fold of the session's log as it is now."""
        return await self._changes.state()

    def _pending(self, state: SessionState, prompt: str) -> Pending:
        found = state.pending.get(_prompt_id(prompt))
        if found is None:
            raise PromptConflict(
                f"session {self.id}: prompt {prompt} is not pending here; it was promoted or "
                "withdrawn, or another session has it"
            )
        return found

    @property
    def _outputs(self) -> Path:
        return self._equipment.workplaces.outputs / self.id

    async def _pictures(
        self, prompt: str, images: Iterable[Image | str | Path]
    ) -> tuple[Image, ...]:
        if not (given := listed(images)):
            return ()
        row = await self.row()
        try:
            return await attached(self._equipment.workplaces, row.directory, row.model, given)
        except ImageRefused:
            # What was admitted under this id once stays so, whatever the model takes now.
            if await self._store.prompt(prompt) is None:
                raise
            return ()

    async def _first_admission(self, prompt: str) -> Admission:
        row = await self._store.prompt(prompt)
        if row is None or row.session != self.id:
            raise PromptConflict(
                f"prompt {prompt} belongs to another session; choose another id, or none"
            )
        return Admission(row.id, row.seq)


def _prompt_id(given: object) -> str:
    """Return an id that a caller gave; UsageError where it is no text, or empty."""
    if not (prompt := unicode_text(given, "id of the prompt")).strip():
        raise UsageError("the id of the prompt is empty; give one, or leave it out")
    return prompt


def _message(given: object) -> int | str:
    """Return the seq or prompt id that a caller gave for a message; UsageError for all else."""
    return given if isinstance(given, str) else whole_number(given, "message")
