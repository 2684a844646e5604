"""What a plugin gets: the place where it registers what it contributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from perdure.config.load import from_mapping
from perdure.config.location import Location, shown
from perdure.config.schema import ProviderConfig
from perdure.config.values import provider_name
from perdure.context import Source
from perdure.errors import DuplicateKey, InvalidKey, UsageError
from perdure.plugins.failures import reason
from perdure.plugins.lifetime import Callback, Lifetime
from perdure.plugins.names import owner_of_key, owns_tool
from perdure.tools import Tool, ToolSet

Make = Callable[[Location], Source[Any]]
"""Declare a Context Source for one Location. It must return at once and load nothing."""


class Scope:
    """What one plugin registers, until the scope is closed.

    A plugin registers while it is loaded, and may go on later: what is added then is told at the
    next boundary. Closing the scope, by a reload or a removal, takes everything back.
    """

    def __init__(self, plugin: str) -> None:
        self.plugin = plugin
        self.lifetime = Lifetime(plugin)
        self._sources: dict[str, Source[Any]] = {}
        self._makers: list[Make] = []
        self._made: dict[tuple[int, Location], Source[Any]] = {}
        self._tools = ToolSet()
        self._providers: dict[str, ProviderConfig] = {}

    def source(self, source: Source[Any]) -> None:
        """Contribute a Context Source; its key begins with the plugin's name.

        `weather/now` and `weather.paris/now` are keys of the plugin `weather`. Raises InvalidKey
        for another one and DuplicateKey for one that this plugin has already.
        """
        self._require_open()
        self._check_source(source, self._sources)
        self._sources[source.key] = source

    def source_at(self, make: Make) -> None:
        """Contribute a Context Source that depends on where a session works.

        `make` is called once for each Location and returns a Source, as `source` takes it. It must
        be quick and load nothing. Where it fails, the rest of the plugin goes on.
        """
        self._require_open()
        if not callable(make):
            raise UsageError(f"source_at takes a function, not {type(make).__name__}")
        self._makers.append(make)

    def tool(self, tool: Tool[Any]) -> None:
        """Contribute a tool; its name is the plugin's, or begins with it and `_` or `-`.

        `weather_forecast` is a tool of the plugin `weather`. Raises UsageError for another name,
        one that this plugin has already, or arguments that are no msgspec Struct.
        """
        self._require_open()
        if not _is_tool(tool):
            raise UsageError(f"scope.tool takes a Tool, not {type(tool).__name__}")
        if not owns_tool(self.plugin, tool.name):
            raise UsageError(
                f"tool {tool.name!r} does not belong to plugin {self.plugin};"
                f" name it {self.plugin}_{tool.name}"
            )
        self._tools = self._tools.with_tools([tool])

    def provider(self, name: str, config: ProviderConfig | Mapping[str, Any]) -> None:
        """Contribute a provider of models, as a table `[providers.NAME]` would.

        A provider of that name in the configuration counts more. Raises ConfigurationError for
        wrong settings, and UsageError for a name that is not usable or that this plugin has
        already.
        """
        self._require_open()
        if rule := provider_name(name):
            raise UsageError(f"{name!r} is no name for a provider: it must be {rule}")
        if name in self._providers:
            raise UsageError(f"plugin {self.plugin} has two providers named {name}; rename one")
        self._providers[name] = _provider(name, config, f"plugin {self.plugin}")

    def on_close(self, callback: Callback) -> None:
        """Call this, sync or async, when the scope is closed; the last one given comes first.

        It runs in another task than the one that loads the plugin, and no step uses the plugin any
        more. An async one has 5 seconds. One that fails is logged, and the others are still called.
        """
        self._require_open()
        self.lifetime.on_close(callback)

    @property
    def tools(self) -> tuple[Tool[Any], ...]:
        """The tools registered so far."""
        return tuple(self._tools)

    @property
    def providers(self) -> Mapping[str, ProviderConfig]:
        """The providers registered so far, by name."""
        return MappingProxyType(dict(self._providers))

    def sources_at(self, location: Location | None) -> tuple[list[Source[Any]], list[str]]:
        """Return the sources that hold at a Location, and what went wrong in declaring others.

        Without a Location, those that need one count as gone wrong.
        """
        sources, problems = dict(self._sources), list[str]()
        for number in range(len(self._makers)):
            try:
                source = self._made_at(number, location)
                self._check_source(source, sources)
                sources[source.key] = source
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
                problems.append(f"a source for {_place(location)} failed: {reason(error)}")
        return list(sources.values()), problems

    def _made_at(self, number: int, location: Location | None) -> Source[Any]:
        if location is None:
            raise UsageError("it depends on the Location, and there is none")
        # The same source at every boundary: it remembers whether its loader hangs.
        if (number, location) not in self._made:
            self._made[number, location] = self._makers[number](location)
        return self._made[number, location]

    def _check_source(self, source: Source[Any], others: Mapping[str, Source[Any]]) -> None:
        if not _is_source(source):
            raise UsageError(f"a Source is needed, not {type(source).__name__}")
        if owner_of_key(source.key) != self.plugin:
            raise InvalidKey(
                f"key {source.key!r} does not belong to plugin {self.plugin};"
                f" begin it with {self.plugin}/ or {self.plugin}."
            )
        if source.key in others:
            raise DuplicateKey(f"plugin {self.plugin} has two sources with the key {source.key!r}")

    def _require_open(self) -> None:
        if self.lifetime.ended:
            raise UsageError(f"the scope of plugin {self.plugin} is closed; it takes nothing more")


def _is_tool(value: object) -> bool:
    return isinstance(value, Tool)


def _is_source(value: object) -> bool:
    return isinstance(value, Source)


def _place(location: Location | None) -> str:
    return shown(location.directory) if location else "no Location"


def _provider(name: str, config: ProviderConfig | Mapping[str, Any], origin: str) -> ProviderConfig:
    if isinstance(config, ProviderConfig):
        return config
    return from_mapping({"providers": {name: config}}, origin).providers[name]
