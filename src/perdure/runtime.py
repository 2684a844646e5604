"""The embedding API: a Runtime over one store, and the Sessions in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio
import anyio.to_thread
from typing_extensions import TypeIs

from perdure.background import background
from perdure.clock import Clock, Ids, RandomIds, SystemClock
from perdure.config.load import from_mapping
from perdure.config.location import Location, find_project
from perdure.config.schema import Config, ProviderConfig
from perdure.context import Source, SystemContext
from perdure.errors import UsageError
from perdure.exchange import import_export
from perdure.history import events as ev
from perdure.mcp import Servers
from perdure.models.transport import Transport
from perdure.plugins import Plugin, Registry, Taken
from perdure.session.attempts import RetryPolicy
from perdure.session.changes import checked, unicode_text
from perdure.session.coordinator import Coordinator, coordinating
from perdure.session.drain import Equipment
from perdure.session.feed import Feed
from perdure.session.handle import Session
from perdure.session.memory import Memory
from perdure.session.owner import new_owner
from perdure.session.standing import Standing, standing_of
from perdure.session.workplace import Surroundings, Workplaces
from perdure.store.contract import SessionRow, Store
from perdure.store.sqlite import open_sqlite
from perdure.telemetry import Telemetry, instrumented
from perdure.tools import builtin_tools, skill_tool
from perdure.tools.base import Tool
from perdure.tools.permissions import Ask


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
        titles: bool = False,
        clock: Clock | None = None,
        ids: Ids | None = None,
        environ: Mapping[str, str] | None = None,
        retry: RetryPolicy | None = None,
        telemetry: Telemetry | None = None,
    ) -> AsyncGenerator[Runtime]:
        """Open a store, creating it where there is none, and run sessions in it.

        `store` is a path of a SQLite database or a Store of your own. `config` is a Config or a
        mapping shaped like `perdure.toml`; without it, the files and environment variables that
        the command line reads are read for each session's directory. `plugins` come before those
        that are installed or configured. `sources` and `tools` come on top of the built-in ones,
        `providers` on top of the configured ones. `ask` answers permission questions; without it,
        `ask` means deny. `allow_all` runs every call, whatever the permissions say. `titles` has
        the model title each session that has no title, where the configuration does not say.
        `telemetry` is where spans and metrics go; without it, OpenTelemetry's variables decide, or
        nothing where `environ` is given. Raises StoreError and ConfigurationError.
        """
        clock, ids = clock or SystemClock(), ids or RandomIds()
        env = dict(os.environ) if environ is None else environ
        contexts, own_tools = tuple(_contexts(sources)), _own(tools)
        async with (
            instrumented(telemetry, clock, environ) as instrumentation,
            _opened(store, clock) as opened,
            Transport() as transport,
            Registry(plugins, taken=_taken(contexts, own_tools)) as registry,
            Servers(env, clock) as servers,
        ):
            around = Surroundings(
                config=config,
                providers=_provider_configs(providers or {}),
                env=env,
                sources=contexts,
                tools=own_tools,
                ask=ask,
                clock=clock,
                transport=transport,
                outputs=_outputs_beside(store),
                plugins=registry,
                servers=servers,
                allow_all=allow_all,
                titles=titles,
                telemetry=instrumentation,
            )
            equipment = _equipment(opened, around, new_owner(ids), retry or RetryPolicy())
            async with background() as group, coordinating(equipment, group) as coordinator:
                group.start_soon(equipment.feed.run)
                yield cls(equipment, coordinator, registry, ids)

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
        location, chosen = await self._choose(directory, model)
        session = self._ids.new()
        created = ev.SessionCreated(
            directory=str(location.directory),
            project=str(location.project),
            model=chosen,
            marker=self._ids.new(),
            title=unicode_text(title, "title"),
            instructions=unicode_text(instructions, "text of the instructions"),
        )
        await self._equipment.store.create(session, [checked(created)])
        return self._session(session)

    async def choose_model(self, directory: str | Path = ".", model: str | None = None) -> str:
        """Return the `provider/model` that a new session in that directory would use.

        Begins nothing; `model` and what is raised are as in `create_session`.
        """
        return (await self._choose(directory, model))[1]

    async def session(self, session: str) -> Session:
        """Return the session with that id, or the one whose id begins so.

        Raises SessionNotFound and AmbiguousId.
        """
        prefix = unicode_text(session, "id of the session")
        return self._session(await self._equipment.store.resolve(prefix))

    async def sessions(self) -> Sequence[SessionRow]:
        """Return all sessions, the one updated last first."""
        return await self._equipment.store.sessions()

    async def standing(self, row: SessionRow) -> Standing:
        """Return what a session is doing, and why it does not go on; starts and writes nothing."""
        return await standing_of(row, self._equipment)

    async def recover(self) -> Sequence[str]:
        """Go on with whatever has work and nobody works on; return the ids of those sessions.

        These are sessions with Prompts that this runtime may answer, and those whose process died
        in its work. Where a process in another container, which cannot be seen from here, may work
        on one, its lease has to run out first. It returns when they are found; the work goes on as
        after a prompt.
        """
        return await self._coordinator.recover()

    async def delete_session(self, session: str) -> None:
        """Remove a session with its history and the complete outputs of its tools.

        The sessions of its tasks go with it. Raises LeaseLost, having removed nothing, while one of
        them is being drained.
        """
        whole = (await self.session(session)).id
        for removed in await self._equipment.store.delete(whole):
            outputs = self._equipment.workplaces.outputs / removed
            await anyio.to_thread.run_sync(partial(shutil.rmtree, outputs, ignore_errors=True))

    async def import_session(self, file: str | Path | BinaryIO) -> Session:
        """Begin the session that an export holds, under its own id; durable when it returns.

        `file` is a path or a stream of bytes. All of it is checked first. It starts nothing by
        itself: prompts that wait are answered, and an open step is settled, with the next work on
        the session. Raises ImportRefused, with file, line and reason, for what is no whole export,
        and where the id or that of a prompt is taken; StoreError where it cannot be kept. Nothing
        is imported then.
        """
        outputs = self._equipment.workplaces.outputs
        session = await import_export(self._equipment.store, outputs, file)
        self._coordinator.forget(session)  # one of that id may have been deleted before
        return self._session(session)

    async def _choose(self, directory: str | Path, model: str | None) -> tuple[Location, str]:
        """Return the Location of a new session in a directory, and its model."""
        location = find_project(directory)
        workplace = await self._equipment.workplaces.at(location.directory)
        named = unicode_text(model, "model") if model else ""
        target = workplace.target(named) if named else await workplace.choose()
        return location, target.name

    def _session(self, session: str) -> Session:
        return Session(session, self._equipment, self._coordinator, self._ids)


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


def _equipment(store: Store, around: Surroundings, owner: str, retry: RetryPolicy) -> Equipment:
    return Equipment(
        store=store,
        feed=Feed(),
        clock=around.clock,
        owner=owner,
        workplaces=Workplaces(around),
        memory=Memory(),
        retry=retry,
    )


def _provider_configs(
    providers: Mapping[str, ProviderConfig | Mapping[str, Any]],
) -> Mapping[str, ProviderConfig]:
    shaped = {name: each for name, each in providers.items() if not _is_config(each)}
    read = from_mapping({"providers": shaped}, "the given providers").providers
    return {**read, **{name: each for name, each in providers.items() if _is_config(each)}}


def _is_config(provider: ProviderConfig | Mapping[str, Any]) -> TypeIs[ProviderConfig]:
    return isinstance(provider, ProviderConfig)


def _taken(contexts: Iterable[SystemContext], tools: Iterable[Tool[Any]]) -> Taken:
    """Return the names that no plugin may have."""
    return Taken(
        keys=frozenset(key for context in contexts for key in context.keys),
        tools=frozenset(tool.name for tool in (*builtin_tools(), skill_tool(), *tools)),
    )


def _each(given: object, what: str, *kinds: type) -> tuple[Any, ...]:
    """Return what was given, as a tuple; UsageError where it is no list or holds another kind."""
    if not isinstance(given, Iterable):
        raise UsageError(f"the {what} must be a list, not {type(given).__name__}")
    each = tuple(cast("Iterable[object]", given))
    for one in each:
        if not isinstance(one, kinds):
            names = " or a ".join(kind.__name__ for kind in kinds)
            raise UsageError(f"each of the {what} must be a {names}, not {type(one).__name__}")
    return each


def _own(tools: Iterable[Tool[Any]]) -> tuple[Tool[Any], ...]:
    return _each(tools, "tools", Tool)


def _contexts(sources: Iterable[Source[Any] | SystemContext]) -> Iterable[SystemContext]:
    for source in _each(sources, "sources", Source, SystemContext):
        yield source if isinstance(source, SystemContext) else SystemContext.make(source)


def _outputs_beside(store: str | Path | Store) -> Path:
    """Return where complete tool outputs go: beside the database they belong to."""
    if isinstance(store, (str, Path)):
        path = Path(store).absolute()
        return path.with_name(f"{path.name}-outputs")
    return Path.cwd() / "perdure-outputs"
