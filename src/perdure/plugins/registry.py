"""The plugins of one runtime: loaded once, reloaded in place, seen as a whole."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from perdure.config.location import Location
from perdure.config.schema import PluginOptions
from perdure.errors import UsageError
from perdure.plugins.loading import PATIENCE
from perdure.plugins.names import name_problem
from perdure.plugins.origins import (
    File,
    Given,
    Installed,
    Plugin,
    installed_plugins,
    origins,
)
from perdure.plugins.unit import Unit
from perdure.plugins.view import PluginDiagnostic, PluginView, Taken, view

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_log = logging.getLogger("perdure.plugins")

DEFAULTS = PluginOptions()
NOTHING_TAKEN = Taken()


class Registry:
    """Holds the plugins of one runtime, in one event loop.

    Plugins are taken in this order: those given by the program, those of installed packages by
    name, the files of the configuration. Of two with one name only the first is loaded.

    Each is loaded once for all sessions, by `prepare`; what holds for a session is seen by `view`
    and `hold`: the whole of what a plugin's last load registered, or nothing if it failed.
    Nothing that a plugin does raises here: what went wrong is in `PluginView.diagnostics` and is
    logged once. Leaving the registry's context closes every scope.
    """

    def __init__(
        self,
        plugins: Iterable[Plugin] = (),
        *,
        taken: Taken = NOTHING_TAKEN,
        installed: Callable[[], Iterable[EntryPoint]] = installed_plugins,
        patience: float = PATIENCE,
    ) -> None:
        """Take the program's own plugins; nothing is run yet.

        `taken` are names that plugins cannot have. `installed` finds the entry points of installed
        packages. `patience` is the seconds that an async registration may take.
        """
        self._given = [Unit(Given(plugin)) for plugin in plugins]
        self._installed: dict[Installed, Unit] | None = None
        self._files: dict[Path, Unit] = {}
        self._removed: set[str] = set()
        self._taken = taken
        self._look = installed
        self._patience = patience
        self._logged: set[PluginDiagnostic] = set()
        # Two changes at once could put an older load in the place of a newer one.
        self._changing = anyio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every scope, the last plugin first, whoever still holds it."""
        with anyio.CancelScope(shield=True):
            async with self._changing:
                for unit in reversed(self._units()):
                    if unit.scope is not None:
                        await unit.scope.lifetime.close()

    async def prepare(self, options: PluginOptions = DEFAULTS) -> None:
        """Load the plugins that these options want and that are not loaded yet.

        One that failed is tried again here when its file has changed since, else by `reload` only.
        Cancelling leaves the rest unloaded: what they told counts as Unavailable.
        """
        if not self._due(options):
            return
        async with self._changing:
            for unit in self._due(options):
                await self._load(unit)

    def view(
        self, options: PluginOptions = DEFAULTS, location: Location | None = None
    ) -> PluginView:
        """Return what the plugins that these options want contribute now, at a Location."""
        units, diagnostics = self._choose(options)
        diagnostics += [unit.problem for unit in units if unit.problem]
        seen = view([unit.part() for unit in units], diagnostics, self._taken, location)
        self._log_new(seen.diagnostics)
        return seen

    @asynccontextmanager
    async def hold(
        self, options: PluginOptions = DEFAULTS, location: Location | None = None
    ) -> AsyncGenerator[PluginView]:
        """Give a view whose plugins are not closed before this context is left.

        A step holds one from its boundary to its last tool result, so that a reload or a removal
        takes effect at the next boundary and the tools of this step still work.
        """
        held = [unit.scope.lifetime for unit in self._choose(options)[0] if unit.scope]
        for lifetime in held:
            lifetime.hold()
        try:
            yield self.view(options, location)
        finally:
            with anyio.CancelScope(shield=True):
                for lifetime in held:
                    await lifetime.release()

    async def reload(self, name: str) -> tuple[PluginDiagnostic, ...]:
        """Run a plugin's registration anew and swap what it registered; return what went wrong.

        A file is run again. Until the new registration has succeeded, the old one is in force; if
        it fails, what the plugin told counts as Unavailable. One that was not loaded yet is left to
        `prepare`. Raises UsageError for a name that no plugin has. Cancelling keeps what was in
        force.
        """
        units = [unit for unit in self._named(name) if unit.was_tried]
        async with self._changing:
            for unit in units:
                await self._load(unit)
        return tuple(unit.problem for unit in units if unit.problem)

    async def replay(self) -> tuple[PluginDiagnostic, ...]:
        """Look for installed plugins anew and reload every plugin; return what went wrong."""
        async with self._changing:
            before = self._found()
            self._installed = self._discover(before)
            for gone in before.keys() - self._installed.keys():
                await before[gone].unload()
            units = [unit for unit in self._present() if unit.was_tried]
            for unit in units:
                await self._load(unit)
        return tuple(unit.problem for unit in units if unit.problem)

    async def add(self, plugin: Plugin) -> tuple[PluginDiagnostic, ...]:
        """Take one more plugin from the program and load it; return what went wrong.

        Raises UsageError for a name that is not usable or that a plugin has already.
        """
        unit = Unit(Given(plugin))
        if problem := name_problem(unit.name):
            raise UsageError(f"plugin {unit.name}: {problem}")
        async with self._changing:
            if any(other.name == unit.name for other in self._present()):
                raise UsageError(f"there is a plugin named {unit.name} already; remove it first")
            self._given = [other for other in self._given if other.name != unit.name]
            self._given.append(unit)
            self._removed.discard(unit.name)
            await self._load(unit)
        return (unit.problem,) if unit.problem else ()

    async def remove(self, name: str) -> None:
        """Take a plugin out for good: what it told is told to be gone at the next boundary.

        It stays out, whatever the configuration says, until `add` brings one of that name. Raises
        UsageError for a name that no plugin has.
        """
        units = self._named(name)
        self._removed.add(name)
        async with self._changing:
            for unit in units:
                await unit.unload()

    def _choose(self, options: PluginOptions) -> tuple[list[Unit], list[PluginDiagnostic]]:
        """Return the plugins that these options want, and why others are left out."""
        chosen: dict[str, Unit] = {}
        left_out: list[PluginDiagnostic] = []
        files = [self._files.setdefault(path, Unit(File(path))) for path in options.paths]
        for unit in (*self._given, *self._found().values(), *files):
            if unit.name in self._removed or unit.name in options.disabled:
                continue
            if problem := name_problem(unit.name):
                left_out.append(unit.part().diagnostic(problem))
            elif first := chosen.get(unit.name):
                problem = f"is left out: {first.part().title} has that name; rename this one"
                left_out.append(unit.part().diagnostic(problem))
            else:
                chosen[unit.name] = unit
        return list(chosen.values()), left_out

    def _due(self, options: PluginOptions) -> list[Unit]:
        return [unit for unit in self._choose(options)[0] if unit.is_due]

    def _units(self) -> list[Unit]:
        return [*self._given, *self._found().values(), *self._files.values()]

    def _present(self) -> Iterator[Unit]:
        return (unit for unit in self._units() if unit.name not in self._removed)

    def _named(self, name: str) -> list[Unit]:
        units = [unit for unit in self._present() if unit.name == name]
        if not units:
            known = ", ".join(sorted({unit.name for unit in self._present()}))
            raise UsageError(f"there is no plugin {name!r}; known are: {known or 'none'}")
        return units

    async def _load(self, unit: Unit) -> None:
        await unit.load(self._patience)
        self._logged = {each for each in self._logged if each.plugin != unit.name}
        if unit.problem:
            self._log_new([unit.problem])

    def _found(self) -> dict[Installed, Unit]:
        """Return the installed plugins, which are looked up before any could seem to be gone."""
        if self._installed is None:
            self._installed = self._discover({})
        return self._installed

    def _discover(self, known: Mapping[Installed, Unit]) -> dict[Installed, Unit]:
        return {each: known.get(each) or Unit(each) for each in origins(self._look())}

    def _log_new(self, diagnostics: Iterable[PluginDiagnostic]) -> None:
        for diagnostic in diagnostics:
            if diagnostic not in self._logged:
                self._logged.add(diagnostic)
                _log.warning("%s", diagnostic)
