"""What holds at a session's Location: configuration, tools, models and facts."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from perdure.clock import Clock
from perdure.config.answers import Answers
from perdure.config.load import from_mapping, load
from perdure.config.location import Location, find_project
from perdure.config.paths import config_dir
from perdure.config.schema import Config, ProviderConfig, Rule
from perdure.context import Diagnostic, Source, SystemContext
from perdure.history.events import RequestShape
from perdure.history.state import SessionState
from perdure.instructions import InstructionService
from perdure.mcp import Servers, ServersView
from perdure.models.protocols import wire_protocols
from perdure.models.resolve import Models, Selected
from perdure.models.transport import Transport
from perdure.models.types import Endpoint, ModelProfile, WireProtocol
from perdure.plugins import PluginView, Registry
from perdure.session.admission import replacement_due
from perdure.skills import user_skills
from perdure.sources import SkillCatalog, convention, date, entries, environment, opening
from perdure.telemetry import OFF, Instrumentation
from perdure.tools import builtin_tools, skill_tool
from perdure.tools.base import Tool
from perdure.tools.permissions import Ask
from perdure.tools.registry import ToolSet
from perdure.tools.shell import shell_program
from perdure.tools.task import NAME as TASK

_logger = logging.getLogger("perdure.session")


class Target(msgspec.Struct, frozen=True):
    """Where a step's requests go. `name` is `provider/model`."""

    name: str
    endpoint: Endpoint
    profile: ModelProfile
    protocol: WireProtocol

    def shape(self) -> RequestShape:
        """Return what decides the bytes of its requests beside the history."""
        return RequestShape(
            protocol=self.endpoint.protocol,
            model=self.profile.model,
            form=self.profile.system_messages,
            max_output=self.profile.max_output,
            parameters=dict(self.profile.parameters),
            images=self.profile.images,
        )


class Surroundings(msgspec.Struct, frozen=True):
    """What a runtime brings to every Workplace.

    `config` is what the embedding program gave, or None to read the files and the environment for
    each directory. `providers` come on top of the configured ones, `sources` and `tools` on top of
    the built-in ones. `outputs` is the directory for complete outputs, with one directory a
    session. `titles` is whether models write titles where the configuration does not say.
    """

    config: Config | Mapping[str, Any] | None
    providers: Mapping[str, ProviderConfig]
    env: Mapping[str, str]
    sources: tuple[SystemContext, ...]
    tools: tuple[Tool[Any], ...]
    ask: Ask | None
    clock: Clock
    transport: Transport
    outputs: Path
    plugins: Registry
    servers: Servers
    allow_all: bool = False
    titles: bool = False
    telemetry: Instrumentation = OFF


class Workplace:
    """What holds at one Location, for one drain."""

    def __init__(
        self,
        location: Location,
        config: Config,
        around: Surroundings,
        models: Models,
        tools: ToolSet,
        protocols: Mapping[str, WireProtocol],
        answers: Answers,
    ) -> None:
        self._answers = answers
        self.location = location
        self.config = config
        self.ask = around.ask
        self.allows_all = around.allow_all
        self.telemetry = around.telemetry
        self.titles = around.titles if config.titles is None else config.titles
        self.models = models
        self._skills = SkillCatalog(location, user_skills(around.env))
        self._tools = tools
        self._around = around
        self._protocols = protocols
        self._files: tuple[tuple[str, ...], InstructionService] | None = None

    def outputs(self, session: str) -> Path:
        """Return the directory for the complete outputs of that session's tools."""
        return self._around.outputs / session

    def remembered(self) -> tuple[Rule, ...]:
        """Return what the user allowed for good in this project. Raises ConfigurationError."""
        return self._answers.rules(self.location.project)

    def remember(self, rules: Iterable[Rule]) -> None:
        """Allow this in this project from now on. Raises ConfigurationError."""
        self._answers.remember(self.location.project, rules)

    def target(self, model: str) -> Target:
        """Return where requests for `provider/model` go.

        Raises UnknownProvider, UnknownModel, and NoProvider where its key is missing.
        """
        return self._target(self.models.select(model))

    async def choose(self) -> Target:
        """Return the model to use where the caller names none; NoProvider where there is none."""
        return self._target(await self.models.choose())

    @asynccontextmanager
    async def plugins(self) -> AsyncGenerator[PluginView]:
        """Give what the plugins contribute now; none of it is closed before this is left.

        A step holds it from its boundary to its last result, so that a reload takes effect at the
        next boundary, and a tool that goes away still serves the calls of the step.
        """
        registry, options = self._around.plugins, self.config.plugins
        await registry.prepare(options)
        async with registry.hold(options, self.location) as view:
            yield view

    async def start_servers(self, state: SessionState) -> ServersView:
        """Return what the MCP servers contribute, after starting those that are not there yet.

        Waits a bounded time for one that the model has not been told of, and for no other.
        """
        servers, project = self.config.mcp, self.location.project
        if servers:
            await self._around.servers.prepare(servers, project, state.snapshot)
        return self.servers()

    def servers(self) -> ServersView:
        """Return what the MCP servers contribute now; starts none."""
        return self._around.servers.view(self.config.mcp, self.location.project)

    def tools(
        self, state: SessionState, plugins: PluginView, servers: ServersView, model: str = ""
    ) -> ToolSet:
        """Return the tools of a step with a model, that of the state where none is named.

        Those of a plugin or server that is lost stay as they were told. A session that works on a
        task gives none itself.
        """
        own = self._tools.without(TASK) if state.task else self._tools
        told = state.epoch.tools if state.epoch else ()
        offered = list(plugins.offer(told))
        if servers.seen:
            due = replacement_due(state, model or state.model, told, on_move=self.config.on_move)
            taken = {tool.name for tool in (*own, *offered)}
            further = servers.tools(told, renewed=bool(due))
            offered += [tool for tool in further if tool.name not in taken]
        return own.with_tools(offered) if offered else own

    async def facts(
        self, state: SessionState, plugins: PluginView, servers: ServersView
    ) -> SystemContext:
        """Compose the session's System Context, in the order in which it is told.

        Looks which instruction files there are, but loads nothing yet.
        """
        files = self._instruction_files(state.discovered)
        builtin: Sequence[Source[Any]] = (
            convention(state.marker),
            opening(state.instructions),
            environment(self.location, shell=shell_program()),
            date(self._around.clock, self.config.timezone),
            self._skills.source(state.snapshot),
            *entries(state.entries),
        )
        return SystemContext.combine(
            *map(SystemContext.make, builtin),
            await anyio.to_thread.run_sync(files.compose, set(state.snapshot)),
            *self._around.sources,
            *map(SystemContext.make, servers.sources()),
            plugins.compose(set(state.snapshot)),
        )

    def diagnostics(self, plugins: PluginView, servers: ServersView) -> list[Diagnostic]:
        """Return what files, skills, plugins and MCP servers could not be used, and why."""
        files = self._files[1].diagnostics if self._files else []
        lost = [
            Diagnostic(f"{each.plugin}/*", "load", f"{each.place}: {each.message}")
            for each in plugins.diagnostics
        ]
        failing = [
            Diagnostic(f"mcp.{each.name}/*", "load", problem)
            for each in servers.standing()
            for problem in each.problems
        ]
        return [*files, *self._skills.diagnostics, *lost, *failing]

    async def nested(self, discovered: tuple[str, ...], paths: Sequence[Path]) -> tuple[str, ...]:
        """Return the instruction files on the way to paths that a tool touched, but for those that
        are told anyway."""
        if not paths:
            return ()
        service = self._instruction_files(discovered)

        def look() -> tuple[str, ...]:
            found = [path for target in paths for path in _nested(service, target)]
            return tuple(dict.fromkeys(found))

        return await anyio.to_thread.run_sync(look)

    def _instruction_files(self, discovered: tuple[str, ...]) -> InstructionService:
        # One service as long as it can be: it remembers which files hang and does not open them
        # a second time.
        if self._files is None or self._files[0] != discovered:
            service = InstructionService(
                config_dir(self._around.env),
                self.location,
                discovered=[Path(path) for path in discovered],
                options=self.config.instructions,
            )
            self._files = (discovered, service)
        return self._files[1]

    def _target(self, selected: Selected) -> Target:
        protocol = self._protocols[selected.endpoint.protocol]
        return Target(selected.name, selected.endpoint, selected.profile, protocol)


def _nested(service: InstructionService, target: Path) -> list[str]:
    try:
        return [str(path) for path in service.nested(target)]
    except (OSError, ValueError, TypeError):
        # What a tool says that it touched need not be a path at all; its call has succeeded.
        _logger.warning("cannot look for instruction files on the way to %r", target)
        return []


class Workplaces:
    """Finds the Workplace of a directory, anew for each drain and after each move."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.protocols = wire_protocols(around.transport)
        self.outputs = around.outputs
        self.telemetry = around.telemetry
        # What a program configures itself must not hang on what its user allowed elsewhere.
        self._answers = Answers(around.env if around.config is None else None)
        self._tool_sets: dict[frozenset[str], ToolSet] = {}

    async def at(self, directory: str | Path) -> Workplace:
        """Return what holds there; DirectoryNotFound or ConfigurationError."""
        location, config = await anyio.to_thread.run_sync(self._look, directory)
        registry = self._around.plugins
        await registry.prepare(config.plugins)
        brought = registry.view(config.plugins, location).providers
        providers = {**brought, **config.providers, **self._around.providers}
        config = msgspec.structs.replace(config, providers=providers)
        models = Models(config, self._around.env)
        tools = self._tools(models)
        return Workplace(
            location, config, self._around, models, tools, self.protocols, self._answers
        )

    def _tools(self, models: Models) -> ToolSet:
        """Return the tools that are there without plugins, made once for the same hidden keys."""
        names = (provider.api_key_env for provider in models.providers.values())
        hidden = frozenset(filter(None, names))
        if hidden not in self._tool_sets:
            further = (skill_tool(user_skills(self._around.env)), *self._around.tools)
            self._tool_sets[hidden] = builtin_tools(hidden=hidden).with_tools(further)
        return self._tool_sets[hidden]

    def _look(self, directory: str | Path) -> tuple[Location, Config]:
        around = self._around
        if around.config is None:
            config = load(directory, around.env)
        elif isinstance(around.config, Config):
            config = around.config
        else:
            config = from_mapping(around.config, env=around.env)
        return find_project(directory), config
