"""Where plugins come from: the embedding program, installed packages, files."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import count
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from perdure.config.location import shown
from perdure.errors import UsageError
from perdure.plugins.failures import reason
from perdure.plugins.scope import Scope

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_log = logging.getLogger("perdure.plugins")

GROUP = "perdure.plugins"
"""The group of entry points in which installed packages offer plugins."""

ATTRIBUTE = "plugin"
"""What a plugin's file must define."""

Register = Callable[[Scope], Awaitable[None] | None]
"""Register what a plugin contributes; sync or async."""


class NamedPlugin(Protocol):
    """A plugin that is an object."""

    @property
    def name(self) -> str:
        """What the plugin is called where the program gives it; files and packages name theirs."""
        ...

    def register(self, scope: Scope) -> Awaitable[None] | None:
        """Register what the plugin contributes."""
        ...


Plugin = Register | NamedPlugin
"""A function that takes a Scope, or an object with a `name` and a method `register`."""


class Origin(Protocol):
    """One place that a plugin comes from."""

    @property
    def name(self) -> str:
        """The plugin's name, known without running its code."""
        ...

    @property
    def place(self) -> str:
        """The place in words, for messages."""
        ...

    def register(self, scope: Scope) -> Awaitable[None] | None:
        """Find the plugin, running code of its file or package, and let it register.

        Raises whatever that code raises, and UsageError where there is no plugin.
        """
        ...

    def fingerprint(self) -> object:
        """Return what differs when it may be worth another try after a failure."""
        ...


class Given(msgspec.Struct, frozen=True, eq=False):
    """A plugin that the embedding program gives."""

    plugin: Plugin
    place: str = "given by the program"

    @property
    def name(self) -> str:
        """Its `name`, else that of the function."""
        for attribute in ("name", "__name__"):
            if isinstance(name := getattr(self.plugin, attribute, None), str):
                return name
        return type(self.plugin).__name__

    def register(self, scope: Scope) -> Awaitable[None] | None:
        """Let it register."""
        return _function(self.plugin)(scope)

    def fingerprint(self) -> object:
        """Return what stays the same: only a reload tries again."""
        return None


class Installed(msgspec.Struct, frozen=True):
    """A plugin of an installed package. Its code is imported once per process."""

    name: str
    value: str
    entry_point: Any

    @property
    def place(self) -> str:
        """The entry point."""
        return f"entry point {shown(self.value)}"

    def register(self, scope: Scope) -> Awaitable[None] | None:
        """Import the package, if it is not yet, and let its plugin register."""
        return _function(self.entry_point.load())(scope)

    def fingerprint(self) -> object:
        """Return what stays the same: only a reload tries again."""
        return None


class File(msgspec.Struct, frozen=True):
    """A plugin in one Python file, which is run anew by each reload."""

    path: Path

    @property
    def name(self) -> str:
        """The file's name without `.py`."""
        return self.path.stem

    @property
    def place(self) -> str:
        """The path."""
        return shown(self.path)

    def register(self, scope: Scope) -> Awaitable[None] | None:
        """Run the file as a module of its own, forgotten when the scope is closed; register."""
        source = _read(self.path)
        module = _module(self.path)
        # Types are looked up by their module's name as long as they are used.
        sys.modules[module.__name__] = module
        scope.on_close(lambda: _forget(module.__name__))
        # Compiled anew: the compiled files that Python keeps are told apart by seconds and size,
        # which misses quick edits.
        exec(_compiled(source, self.path), module.__dict__)  # noqa: S102 - the user named this file to be run
        if not hasattr(module, ATTRIBUTE):
            raise UsageError(f"the file defines no `{ATTRIBUTE}`")
        return _function(getattr(module, ATTRIBUTE))(scope)

    def fingerprint(self) -> object:
        """Return what differs when the file was replaced or written."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def installed_plugins() -> Iterator[EntryPoint]:
    """Find the entry points that installed packages offer; pass over damaged packages."""
    # Only a program that runs sessions pays for the import.
    from importlib import invalidate_caches
    from importlib.metadata import distributions

    invalidate_caches()  # a package may have been installed since the last look
    for package in distributions():
        try:
            yield from package.entry_points.select(group=GROUP)
        except Exception as error:  # noqa: BLE001 - its metadata may hold anything
            _log.warning("the metadata of an installed package cannot be read: %s", reason(error))


def origins(entry_points: Iterable[EntryPoint]) -> list[Installed]:
    """Return where installed plugins come from, in the order of their names."""
    found = {(each.name, each.value): each for each in entry_points}
    return [Installed(name, value, found[name, value]) for name, value in sorted(found)]


def _read(path: Path) -> bytes:
    if not path.is_file():  # a FIFO would never end
        raise UsageError("there is no such file")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"the file cannot be read: {error.strerror}") from error


def _compiled(source: bytes, path: Path) -> CodeType:
    try:
        return compile(source, str(path), "exec", dont_inherit=True)
    except ValueError as error:
        # What source can never hold is a SyntaxError only since Python 3.11.4.
        raise SyntaxError(str(error)) from error


def _module(path: Path) -> ModuleType:
    base = f"_perdure_plugin_{path.stem.replace('.', '_')}"
    module = ModuleType(
        next(name for number in count(1) if (name := f"{base}_{number}") not in sys.modules)
    )
    module.__file__ = str(path)
    return module


def _forget(module: str) -> None:
    sys.modules.pop(module, None)


def _function(plugin: Any) -> Register:
    for function in (getattr(plugin, "register", None), plugin):
        if callable(function):
            return cast("Register", function)
    raise UsageError(
        f"the plugin is a {type(plugin).__name__};"
        " it must be a function that takes a scope, or have a method `register`"
    )
