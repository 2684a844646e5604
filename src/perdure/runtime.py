"""The embedding API: a Runtime over one store, and the Sessions in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from typing_extensions import TypeIs

from perdure.clock import Clock, Ids, RandomIds, SystemClock
from perdure.config.load import from_mapping
from perdure.config.location import find_project
from perdure.config.schema import Config, ProviderConfig
from perdure.context import Source, SystemContext
from perdure.context.compare import same
from perdure.errors import PromptConflict, StaleBoundary, UsageError
from perdure.history import events as ev
from perdure.history.items import Item
from perdure.history.state import SessionState, fold
from perdure.models.transport import Transport
from perdure.plugins import Plugin, Registry, Taken
from perdure.session.attempts import RetryPolicy, error_of
from perdure.session.coordinator import Coordinator
from perdure.session.drain import Equipment
from perdure.session.feed import Feed
from perdure.session.memory import Memory
from perdure.session.owner import new_owner
from perdure.session.reading import AnyRecord, EventReader
from perdure.session.replay import request_body
from perdure.session.transcript import transcript
from perdure.session.view import ContextView, view_context, view_told
from perdure.session.workplace import Surroundings, Workplaces
from perdure.sources import check_entry
from perdure.store.contract import Guard, SessionRow, Store
from perdure.store.sqlite import open_sqlite
from perdure.tools import builtin_tools, skill_tool
from perdure.tools.base import Tool
from perdure.tools.permissions import Ask

_TRIES = 20

_AnyEvent = TypeVar("_AnyEvent", bound=ev.Event)


class Admission(msgspec.Struct, frozen=True):
    """A Prompt that is durable in the inbox. `seq` is that of its admission."""

    id: str
    seq: int


class Runtime:
    """Sessions over one store, worked on by this process.

    Open it with `Runtime.open`; leaving the context interrupts what still runs, settles it and
    closes the store. Pending prompts stay for the next time. `plugins` is the registry of its
    plugins, to add, reload and remove them.
    """

    def __init__(
        self,
        equipment: Equipment,
        coordinator: Coordinator,
        plugins: Registry,
        ids: Ids,
    ) -> None:
        self.plugins = plugins
        self._equipment = equipment
        self._coordinator = coordinator
        self._ids = ids

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: str | Path | Store,
        *,
        config: Config | Mapping[str, Any] | None = None,
        plugins: Iterable[Plugin] = (),
        sources: Iterable[Source[Any] | SystemContext] = (),
        tools: Iterable[Tool[Any]] = (),
        providers: Mapping[str, ProviderConfig | Mapping[str, Any]] | None = None,
        ask: Ask | None = None,
        allow_all: bool = False,
        clock: Clock | None = None,
        ids: Ids | None = None,
        environ: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
    ) -> AsyncGenerator[Runtime]:
        """Open a store, creating it where there is none, and run sessions in it.

        `store` is a path of a SQLite database or a Store of your own. `config` is a Config or a
        mapping shaped like `perdure.toml`; without it, the files and environment variables that
        the command line reads are read for each session's directory. `plugins` come before those
        that are installed or configured. `sources` and `tools` come on top of the built-in ones,
        `providers` on top of the configured ones. `ask` answers permission questions; without it,
        `ask` means deny. `allow_all` runs every call, whatever the permissions say. Raises
        StoreError and ConfigurationError.
        """
        clock, ids = clock or SystemClock(), ids or RandomIds()
        contexts, own_tools = tuple(_contexts(sources)), tuple(tools)
        async with (
            _opened(store, clock) as opened,
            Transport() as transport,
            Registry(plugins, taken=_taken(contexts, own_tools)) as registry,
        ):
            around = Surroundings(
                config=config,
                providers=_provider_configs(providers or {}),
                env=dict(os.environ) if environ is None else environ,
                sources=contexts,
                tools=own_tools,
                ask=ask,
                clock=clock,
                transport=transport,
                outputs=_outputs_beside(store),
                plugins=registry,
                allow_all=allow_all,
            )
            equipment = Equipment(
                store=opened,
                feed=Feed(),
                clock=clock,
                owner=new_owner(ids),
                workplaces=Workplaces(around),
                memory=Memory(),
                retry=retry or RetryPolicy(),
            )
            async with _background() as group:
                yield cls(equipment, Coordinator(equipment, group), registry, ids)

    async def create_session(
        self,
        *,
        directory: str | Path = ".",
        model: str | None = None,
        title: str = "",
        instructions: str = "",
    ) -> Session:
        """Begin a session; durable when it returns.

        `model` is `provider/model`, or None for the one that the configuration or the environment
        gives (NoProvider where neither does). `instructions` are the embedder's own opening
        instructions. Raises DirectoryNotFound, UnknownProvider and UnknownModel.
        """
        location = find_project(directory)
        workplace = await self._equipment.workplaces.at(str(location.directory))
        chosen = workplace.target(model) if model else await workplace.choose()
        session = self._ids.new()
        created = ev.SessionCreated(
            directory=str(location.directory),
            project=str(location.project),
            model=chosen.name,
            marker=self._ids.new(),
            title=_utf8(title, "title"),
            instructions=_utf8(instructions, "text of the instructions"),
        )
        await self._equipment.store.create(session, [_checked(created)])
        return self._session(session)

    async def session(self, session: str) -> Session:
        """Return the session with that id, or the one whose id begins so.

        Raises SessionNotFound and AmbiguousId.
        """
        return self._session(await self._equipment.store.resolve(session))

    async def sessions(self) -> Sequence[SessionRow]:
        """Return all sessions, the one updated last first."""
        return await self._equipment.store.sessions()

    async def delete_session(self, session: str) -> None:
        """Remove a session with its history and the complete outputs of its tools.

        Raises LeaseLost while it is being drained.
        """
        whole = await self._equipment.store.resolve(session)
        await self._equipment.store.delete(whole)
        outputs = self._equipment.workplaces.outputs / whole
        await anyio.to_thread.run_sync(partial(shutil.rmtree, outputs, ignore_errors=True))

    def _session(self, session: str) -> Session:
        return Session(session, self._equipment, self._coordinator, self._ids)


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

    async def prompt(
        self,
        text: str,
        *,
        id: str | None = None,  # noqa: A002 - the id of the prompt, as every client knows it
        delivery: ev.Delivery = "steer",
        hold: bool = False,
    ) -> Admission:
        """Admit a Prompt; it is durable when this returns, and a drain starts by itself.

        The same `id` again returns the first admission and admits nothing; an id that is used in
        another session raises PromptConflict. `delivery` is `steer` (promoted at the next
        boundary) or `queue` (when the session would otherwise be idle). With `hold`, only this
        runtime drains it, under its own permissions, while it lives.
        """
        if not _utf8(text, "prompt").strip():
            raise UsageError("the prompt is empty; write what the model should do")
        prompt = _utf8(id, "id of the prompt") if id else self._ids.new()
        holder = self._equipment.owner if hold else ""
        event = _checked(ev.PromptAdmitted(prompt, text, delivery, holder))
        try:
            (record,) = await self._store.append(self.id, [event])
        except PromptConflict:
            admission = await self._first_admission(prompt)
        else:
            admission = Admission(prompt, record.seq)
            self._equipment.feed.publish(self.id, (record,))
        self._coordinator.wake(self.id)
        return admission

    async def events(
        self, *, after: int = 0, until_idle: bool = False, prompt: str | None = None
    ) -> AsyncGenerator[AnyRecord]:
        """Yield every durable event with a seq above `after` exactly once and in order, then live.

        Live fragments have no seq. `until_idle` ends the iteration when all is read and nobody
        works on the session; what kept a step from starting is raised then. `prompt` yields from
        the promotion of that prompt to its settlement, and ends there.
        """
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

    async def wait(self) -> None:
        """Wait until nobody works on the session.

        Cancelling it does not cancel the work. Raises what kept the last step from starting.
        """
        after = await self._store.version(self.id)
        async for _ in self.events(after=after, until_idle=True):
            pass

    async def interrupt(self) -> None:
        """Stop what runs in this process, settle it, and keep pending prompts. Idempotent."""
        await self._coordinator.interrupt(self.id)

    async def rename(self, title: str) -> None:
        """Give the session another title; durable when it returns."""
        await self._write(ev.SessionRenamed(_utf8(title, "title")))

    async def switch_model(self, model: str) -> None:
        """Use another model from the next step on, which starts a new Context Epoch.

        Switching away and back with no step between changes nothing. Raises UnknownProvider and
        UnknownModel.
        """
        directory = (await self.state()).directory
        name = (await self._equipment.workplaces.at(directory)).target(model).name

        def switch(state: SessionState) -> ev.Event | None:
            return None if name == state.model else ev.ModelSwitched(name)

        await self._change(switch)

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

        await self._change(move)

    async def set_entry(self, name: str, value: Any) -> None:
        """Set a session entry to a JSON value (null is a value); it is told at the next boundary.

        Setting the value that it has changes nothing. Raises UsageError where name or value cannot
        be an entry, or the value exceeds 8 KiB of JSON.
        """
        plain = check_entry(name, value)

        def set_it(state: SessionState) -> ev.Event | None:
            known = name in state.entries and same(state.entries[name], plain)
            return None if known else ev.EntrySet(name, plain)

        await self._change(set_it)

    async def remove_entry(self, name: str) -> None:
        """Remove a session entry; that it is gone is told at the next boundary."""

        def remove(state: SessionState) -> ev.Event:
            if name not in state.entries:
                raise UsageError(f"session {self.id} has no entry {name!r}")
            return ev.EntryRemoved(name)

        await self._change(remove)

    async def withdraw(self, prompt: str) -> None:
        """Take a pending Prompt back; PromptConflict where it is not pending in this session."""

        def withdraw(state: SessionState) -> ev.Event:
            if prompt not in state.pending:
                raise PromptConflict(f"session {self.id}: prompt {prompt} is not pending")
            return ev.PromptWithdrawn(prompt)

        await self._change(withdraw)

    async def compact(self) -> bool:
        """Put a summary in the place of the older history; return whether that was done.

        It runs before the next step, or at once when the session is idle. Raises the failure where
        a summary could not be made; the history is as it was then.
        """
        after = await self._store.version(self.id)
        await self._write(ev.CompactionAsked())
        self._coordinator.wake(self.id)
        async for record in self.events(after=after, until_idle=True):
            if isinstance(record.data, ev.CompactionFinished):
                return True
            if isinstance(record.data, ev.CompactionFailed):
                raise error_of(record.data.failure)
        return False

    async def context(self, *, at: int | None = None) -> ContextView:
        """Return what the model has been told, beside what holds now; observes, admits nothing.

        With `at`, return what it had been told at that seq, and observe nothing. Raises UsageError
        where the log has no such seq.
        """
        records = await self._store.events(self.id)
        if at is not None:
            if not 1 <= at <= len(records):
                raise UsageError(
                    f"session {self.id} has no event {at}; its log ends at {len(records)}"
                )
            return view_told(self.id, records[:at])
        state = fold(self.id, records)
        workplace = await self._equipment.workplaces.at(state.directory)
        return await view_context(self.id, records, workplace)

    async def request(self, step: int | None = None) -> bytes:
        """Return the exact request body of a step, by default the last; UsageError if none."""
        protocols = self._equipment.workplaces.protocols
        return request_body(self.id, await self._store.events(self.id), protocols, step)

    async def state(self) -> SessionState:
        """Return the fold of the session's log as it is now."""
        return fold(self.id, await self._store.events(self.id))

    async def _write(self, event: ev.Event, guard: Guard | None = None) -> None:
        records = await self._store.append(self.id, [_checked(event)], guard=guard)
        self._equipment.feed.publish(self.id, records)

    async def _change(self, decide: Callable[[SessionState], ev.Event | None]) -> None:
        """Write what is decided from the state, if nothing has come between; else decide again."""
        for _ in range(_TRIES):
            state = await self.state()
            event = decide(state)
            if event is None:
                return
            try:
                await self._write(event, Guard(exactly=state.last_seq))
            except StaleBoundary:
                continue
            return
        raise StaleBoundary(f"session {self.id}: it is being changed too fast; try again")

    async def _first_admission(self, prompt: str) -> Admission:
        row = await self._store.prompt(prompt)
        if row is None or row.session != self.id:
            raise PromptConflict(
                f"prompt {prompt} belongs to another session; choose another id, or none"
            )
        return Admission(row.id, row.seq)


def _checked(event: _AnyEvent) -> _AnyEvent:
    """Return an event made of what a caller gave; UsageError where the log could not give it back.

    Nothing checks it later: an event of wrong types would be written, and never be read again.
    """
    try:
        msgspec.convert(msgspec.structs.asdict(event), type(event))
    except msgspec.ValidationError as error:
        raise UsageError(f"this is no {event.type}: {error}") from None
    return event


@asynccontextmanager
async def _background() -> AsyncGenerator[TaskGroup]:
    """Give a task group that is cancelled on leaving; what is raised within comes out alone."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        try:
            yield group
        except Exception as error:  # noqa: BLE001 - raised again, outside of the group
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


@asynccontextmanager
async def _opened(store: str | Path | Store, clock: Clock) -> AsyncGenerator[Store]:
    if not isinstance(store, (str, Path)):
        yield store
        return
    opened = await open_sqlite(Path(store), clock=clock)
    try:
        yield opened
    finally:
        with anyio.CancelScope(shield=True):
            await opened.close()


def _provider_configs(
    providers: Mapping[str, ProviderConfig | Mapping[str, Any]],
) -> Mapping[str, ProviderConfig]:
    shaped = {name: each for name, each in providers.items() if not _is_config(each)}
    read = from_mapping({"providers": shaped}, "the given providers").providers
    return {**read, **{name: each for name, each in providers.items() if _is_config(each)}}


def _is_config(provider: ProviderConfig | Mapping[str, Any]) -> TypeIs[ProviderConfig]:
    return isinstance(provider, ProviderConfig)


def _utf8(text: object, what: str) -> str:
    """Return text that can be stored; UsageError for another type and half a surrogate pair."""
    if not isinstance(text, str):
        raise UsageError(f"the {what} must be a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(
            f"the {what} is not valid Unicode; leave out the lone surrogates"
        ) from None
    return text


def _taken(contexts: Iterable[SystemContext], tools: Iterable[Tool[Any]]) -> Taken:
    """Return the names that no plugin may have."""
    return Taken(
        keys=frozenset(key for context in contexts for key in context.keys),
        tools=frozenset(tool.name for tool in (*builtin_tools(), skill_tool(), *tools)),
    )


def _contexts(sources: Iterable[Source[Any] | SystemContext]) -> Iterable[SystemContext]:
    for source in sources:
        yield source if isinstance(source, SystemContext) else SystemContext.make(source)


def _outputs_beside(store: str | Path | Store) -> Path:
    """Return where complete tool outputs go: beside the database they belong to."""
    if isinstance(store, (str, Path)):
        path = Path(store).absolute()
        return path.with_name(f"{path.name}-outputs")
    return Path.cwd() / "perdure-outputs"
