"""What `perdure doctor` finds, gathered without showing it."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import apsw
import msgspec

from perdure.cli.default_model import already, default_model, refused_by
from perdure.clock import SystemClock
from perdure.config.answers import Answers
from perdure.config.load import load
from perdure.config.location import Location, find_project
from perdure.config.paths import config_dir, store_path
from perdure.config.schema import Config, Ignored, Permission
from perdure.config.trust import is_trusted
from perdure.errors import (
    ConfigurationError,
    PerdureError,
    SessionNotFound,
    StoreDamaged,
)
from perdure.instructions import InstructionService
from perdure.mcp import Pace, Servers, ServerStatus
from perdure.mcp.names import PREFIX
from perdure.models.discovery import Found, discover
from perdure.models.resolve import Models
from perdure.plugins import PluginView, Registry
from perdure.runtime import Runtime
from perdure.session.admission import replacement_due
from perdure.session.handle import Session
from perdure.skills import SkillIndex, find_skills, user_skills
from perdure.store.contract import Store
from perdure.store.sqlite import open_sqlite
from perdure.telemetry.standing import TelemetryStanding, telemetry_standing
from perdure.tools import builtin_tools, skill_tool
from perdure.tools.base import Tool
from perdure.tools.permissions import decide, fits

_SHOWN = 4
_LONG_ENOUGH = 16
_LATEST = 50
_PATIENCE = 20.0
"""Seconds that MCP servers have to start and to say what they offer."""


class Setting(msgspec.Struct, frozen=True):
    """A configured key and the file that it comes from."""

    key: str
    file: str


class Provider(msgspec.Struct, frozen=True):
    """A provider that could be used. `key` says whether its key is set, masked."""

    name: str
    protocol: str
    base_url: str
    key: str


class Examination(msgspec.Struct, frozen=True):
    """All that was found. `problems` are the lines that make the exit code 1.

    `mended` are those that would have, and were put right before. `configured` is False where the
    configuration is wrong, so that none of it counts.
    """

    perdure: str
    python: str
    sqlite: str
    directory: str
    project: str
    trusted: bool
    store: str
    store_bytes: int | None
    ripgrep: str | None
    telemetry: TelemetryStanding
    settings: tuple[Setting, ...]
    ignored: tuple[Ignored, ...]
    configured: bool
    model: str
    model_reason: str
    providers: tuple[Provider, ...]
    servers: tuple[Found, ...]
    permissions: dict[str, str]
    rules: tuple[str, ...]
    instructions: tuple[str, ...]
    skills: tuple[str, ...]
    plugins: tuple[str, ...]
    mcp: tuple[ServerStatus, ...]
    mended: tuple[str, ...]
    diagnostics: tuple[str, ...]
    problems: tuple[str, ...]


async def examine(directory: str, env: Mapping[str, str], *, mend: bool = False) -> Examination:
    """Look at everything once; raise DirectoryNotFound for a directory that is none.

    What is wrong elsewhere is a problem in the result. The store is opened only where it exists.
    With `mend`, what does not agree with its log is written anew before it is looked at; a log is
    never changed.
    """
    location = find_project(directory)
    config, trusted, config_problems = _configuration(directory, env)
    servers = await discover()
    models = Models(config, env, look=already(servers))
    model, reason = await default_model(models, config)
    survey = InstructionService(config_dir(env), location, options=config.instructions).survey()
    skills = find_skills(location, user_skills(env))
    plugins = await _plugins(config, location)
    mcp = await _mcp(config, location, env)
    store = store_path(env)
    stored = await _stored(store, str(location.directory), env, mend=mend)
    tools = _tools()
    telemetry = await telemetry_standing(SystemClock(), env)
    return Examination(
        perdure=version("perdure"),
        python=platform.python_version(),
        sqlite=apsw.sqlite_lib_version(),
        directory=str(location.directory),
        project=str(location.project),
        trusted=trusted,
        store=str(store),
        store_bytes=_size(store),
        ripgrep=shutil.which("rg"),
        telemetry=telemetry,
        settings=tuple(Setting(key, file) for key, file in config.origins.items()),
        ignored=config.ignored,
        configured=not config_problems,
        model=model,
        model_reason=reason,
        providers=tuple(_providers(models, env)),
        servers=tuple(servers),
        rules=tuple(_rules(config, location, env)),
        permissions={name: _permission(tool, config) for name, tool in tools.items()},
        instructions=tuple(str(found.path) for found in survey.files),
        skills=tuple(skill.name for skill in skills.skills),
        plugins=tuple(f"{each.name} ({each.status})" for each in plugins.plugins),
        mcp=tuple(mcp),
        mended=stored.mended,
        diagnostics=(
            *map(str, (*survey.refused, *survey.blocked)),
            *_unknown_tools(config, tools, mcp),
            *(await refused_by(models, model)),
            *_of_skills_and_sources(skills, stored.diagnostics),
        ),
        problems=(
            *config_problems,
            *stored.problems,
            *map(str, plugins.diagnostics),
            *_failing_servers(mcp),
            *telemetry.problems,
            *(() if model or config_problems else (reason,)),
        ),
    )


def _tools() -> dict[str, Tool[Any]]:
    tools = {tool.name: tool for tool in (*builtin_tools(), skill_tool())}
    return dict(sorted(tools.items()))


def _of_skills_and_sources(skills: SkillIndex, sources: Sequence[str]) -> list[str]:
    """Return what is wrong with skills, then with sources, each once: skills are a source too."""
    troubles = [str(trouble) for trouble in (*skills.troubles, *skills.blocked)]
    others = [each for each in sources if not each.endswith(tuple(troubles))]
    return [*(f"skill {trouble}" for trouble in troubles), *others]


def _configuration(directory: str, env: Mapping[str, str]) -> tuple[Config, bool, tuple[str, ...]]:
    """Return the configuration, whether the project is trusted, and what is wrong with the two."""
    try:
        return load(directory, env), is_trusted(directory, env), ()
    except ConfigurationError as error:
        return Config(), False, (str(error),)


def _providers(models: Models, env: Mapping[str, str]) -> list[Provider]:
    return [
        Provider(name, config.protocol, config.base_url, _key(config.api_key_env, env))
        for name, config in models.providers.items()
    ]


def _key(name: str | None, env: Mapping[str, str]) -> str:
    if not name:
        return "none needed"
    key = env.get(name, "")
    if not key:
        return f"{name} is not set"
    # A few characters tell two keys apart; of a short one they would tell too much.
    end = f" (…{key[-_SHOWN:]})" if len(key) >= _LONG_ENOUGH else ""
    return f"{name} is set{end}"


async def _plugins(config: Config, location: Location) -> PluginView:
    """Load the plugins that are in effect here, look at them, and close them again."""
    async with Registry() as registry:
        await registry.prepare(config.plugins)
        return registry.view(config.plugins, location)


async def _mcp(
    config: Config, location: Location, env: Mapping[str, str]
) -> Sequence[ServerStatus]:
    """Start the MCP servers that are in effect here, look at them, and end them again."""
    pace = Pace(join=_PATIENCE)
    async with Servers(env, SystemClock(), pace) as servers:
        await servers.prepare(config.mcp, location.project)
        return servers.view(config.mcp, location.project).standing()


def _failing_servers(servers: Sequence[ServerStatus]) -> list[str]:
    late = f"it did not answer in {_PATIENCE:g} s"
    return [
        f"MCP server {each.name}: {problem}"
        for each in servers
        for problem in each.problems or ((late,) if each.status != "ready" else ())
    ]


def _size(path: Path) -> int | None:
    return path.stat().st_size if path.exists() else None


class _Stored(msgspec.Struct, frozen=True):
    """What was found in the store: lines of what was mended, of what is broken, of what waits."""

    mended: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    diagnostics: tuple[str, ...] = ()


async def _stored(path: Path, directory: str, env: Mapping[str, str], *, mend: bool) -> _Stored:
    """Look at a store, after mending it where that is wanted; nothing where there is none."""
    if _size(path) is None:
        return _Stored()
    mended: Sequence[str] = ()
    problems: Sequence[str] = ()
    try:
        async with await open_sqlite(path, clock=SystemClock()) as store:
            mended = await store.rebuild() if mend else ()
            problems = await store.check()
            diagnostics = await _sessions(store, directory, env)
    except PerdureError as error:
        return _Stored(tuple(mended), tuple(problems) or (str(error),))
    return _Stored(tuple(mended), tuple(problems), diagnostics)


async def _sessions(store: Store, directory: str, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return what the sessions updated last suffer from.

    That is an epoch which is due and cannot begin, and, for the latest session of this directory,
    sources that cannot be observed.
    """
    found: list[str] = []
    async with Runtime.open(store, environ=env) as runtime:
        rows = (await runtime.sessions())[:_LATEST]
        here = [row.id for row in rows if row.directory == directory][:1]
        for row in rows:
            found += await _suffers(row.id, runtime, is_latest_here=row.id in here)
    return tuple(found)


async def _suffers(id_: str, runtime: Runtime, *, is_latest_here: bool) -> list[str]:
    try:
        session = await runtime.session(id_)
        failing = await _failing(session) if is_latest_here else []
        return [*await _blocked_by(session), *failing]
    except (StoreDamaged, SessionNotFound):
        return []  # checking the database has named it
    except PerdureError as error:
        return [f"session {id_}: {error}"]


async def _failing(session: Session) -> list[str]:
    """Return the sources that cannot be observed now, as the latest session here has them."""
    view = await session.context()
    return [f"source {each.key}: {each.message}" for each in view.diagnostics]


async def _blocked_by(session: Session) -> list[str]:
    state = await session.state()
    epoch = state.epoch
    # Which tools there are now is looked up only where something else makes an epoch due.
    if epoch is None or not replacement_due(state, state.model, epoch.tools):
        return []
    view = await session.context()
    why = ", ".join(view.reasons)
    return [
        f"session {session.id}: a new epoch is due ({why}), but {key} cannot be observed"
        for key in view.blocked
    ]


def _permission(tool: Tool[Any], config: Config) -> Permission:
    return decide(tool.name, config.permissions, default=tool.default).permission


def _unknown_tools(
    config: Config, tools: Iterable[str], servers: Sequence[ServerStatus]
) -> list[str]:
    """Return the permissions for tools that are not there; a misspelled one protects nothing."""
    known = [*tools, *(tool for server in servers for tool in server.tools)]
    lost = [server.name for server in servers if server.status != "ready"]
    return [
        f"permissions.{name} names no built-in tool; if no plugin or program brings one, correct it"
        for name in dict.fromkeys(rule.tool for rule in config.permissions)
        if not any(fits(name, tool) for tool in known)
        # What a server offers that cannot be reached is not known.
        and not (lost and name.startswith(PREFIX))
    ]


def _rules(config: Config, location: Location, env: Mapping[str, str]) -> list[str]:
    """Return the rules for certain resources, in order, then what was allowed for good."""
    lines = [str(rule) for rule in config.permissions if rule.resource != "*"]
    try:
        answered = Answers(env).rules(location.project)
    except ConfigurationError as error:
        return [*lines, str(error)]
    return lines + [f"{rule.tool}({rule.resource}): allowed for good" for rule in answered]
