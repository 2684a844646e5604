"""What all plugins contribute at one moment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from perdure.config.known import KNOWN
from perdure.config.location import Location
from perdure.config.schema import ProviderConfig
from perdure.context import Source, SystemContext
from perdure.errors import ToolError
from perdure.history.content import ToolDefinition
from perdure.plugins.names import owner_of_key, owner_of_tool
from perdure.plugins.scope import Scope
from perdure.tools import Tool, ToolContext
from perdure.tools.base import ToldTool

T = TypeVar("T")


class Taken(msgspec.Struct, frozen=True):
    """Names that plugins cannot have: those of Perdure itself and of the embedding program."""

    keys: frozenset[str] = frozenset()
    tools: frozenset[str] = frozenset()
    providers: frozenset[str] = frozenset(KNOWN)


class PluginDiagnostic(msgspec.Struct, frozen=True):
    """Why a plugin, or a part of it, is not in force. `place` is where the plugin comes from."""

    plugin: str
    place: str
    message: str

    def __str__(self) -> str:
        return f"plugin {self.plugin} ({self.place}): {self.message}"


class Part(msgspec.Struct, frozen=True):
    """One plugin at one moment; it has no scope where it is not loaded.

    `providers` are those it registered last: an outage takes no model away.
    """

    name: str
    place: str
    scope: Scope | None
    providers: Mapping[str, ProviderConfig]

    @property
    def title(self) -> str:
        """The plugin in words, for messages."""
        return f"plugin {self.name} ({self.place})"

    def diagnostic(self, message: str) -> PluginDiagnostic:
        """Return that something of this plugin is not in force."""
        return PluginDiagnostic(self.name, self.place, message)


class PluginStatus(msgspec.Struct, frozen=True):
    """How a plugin stands. An `incomplete` one is loaded but could not declare all its sources."""

    name: str
    place: str
    status: Literal["loaded", "incomplete", "failed"]


class PluginView(msgspec.Struct, frozen=True):
    """What all plugins contribute at one moment; it never changes.

    `sources` are in the order of their keys, `plugins` in the order in which they were found.
    """

    sources: tuple[Source[Any], ...] = ()
    tools: tuple[Tool[Any], ...] = ()
    providers: Mapping[str, ProviderConfig] = MappingProxyType({})
    diagnostics: tuple[PluginDiagnostic, ...] = ()
    plugins: tuple[PluginStatus, ...] = ()
    taken: Taken = Taken()

    def compose(self, told: Collection[str] = ()) -> SystemContext:
        """Return the plugins' sources as a System Context, in the order of their keys.

        `told` are the keys of the session's Context Snapshot. Those that belong to a plugin which
        is not loaded become sources that are Unavailable, so what was told stands. What a plugin no
        longer registers, and what belongs to no plugin, is left out, so that its removal is told.
        """
        sources = {source.key: source for source in self.sources}
        lost = self._with("failed", "incomplete")
        for key in set(told) - sources.keys() - self.taken.keys:
            if owner_of_key(key) in lost:
                sources[key] = Source.unavailable(key)
        return SystemContext.combine(*(SystemContext.make(sources[key]) for key in sorted(sources)))

    def offer(self, told: Iterable[ToolDefinition] = ()) -> tuple[Tool[Any], ...]:
        """Return the plugins' tools.

        `told` are the tool definitions of the Context Epoch in force. Those that belong to a plugin
        which is not loaded stay as they were told, and their calls answer with an error.
        """
        present = {tool.name for tool in self.tools} | self.taken.tools
        failed = self._with("failed")
        lost = [
            _lost_tool(definition, plugin)
            for definition in told
            if definition.name not in present and (plugin := owner_of_tool(definition.name, failed))
        ]
        return (*self.tools, *lost)

    def _with(self, *status: str) -> set[str]:
        return {plugin.name for plugin in self.plugins if plugin.status in status}


def view(
    parts: Sequence[Part],
    diagnostics: Iterable[PluginDiagnostic],
    taken: Taken,
    location: Location | None,
) -> PluginView:
    """Put together what plugins contribute; of two with one name, the first keeps it."""
    notes = list(diagnostics)
    plugins: list[PluginStatus] = []
    sources: list[_Offer[Source[Any]]] = []
    tools: list[_Offer[Tool[Any]]] = []
    for part in parts:
        found, problems = part.scope.sources_at(location) if part.scope else ([], [])
        status = "failed" if part.scope is None else "incomplete" if problems else "loaded"
        plugins.append(PluginStatus(part.name, part.place, status))
        notes += [part.diagnostic(problem) for problem in problems]
        sources += [_Offer(part, source.key, source) for source in found]
        tools += [
            _Offer(part, tool.name, tool) for tool in (part.scope.tools if part.scope else ())
        ]
    providers = [_Offer(part, *each) for part in parts for each in part.providers.items()]
    by_key = _first_of_each("source", sources, taken.keys, notes)
    return PluginView(
        sources=tuple(by_key[key] for key in sorted(by_key)),
        tools=tuple(_first_of_each("tool", tools, taken.tools, notes).values()),
        providers=MappingProxyType(_first_of_each("provider", providers, taken.providers, notes)),
        diagnostics=tuple(notes),
        plugins=tuple(plugins),
        taken=taken,
    )


class _Offer(NamedTuple, Generic[T]):
    """One contribution of one plugin."""

    part: Part
    name: str
    value: T


def _first_of_each(
    kind: str,
    offers: Iterable[_Offer[T]],
    taken: Collection[str],
    notes: list[PluginDiagnostic],
) -> dict[str, T]:
    kept: dict[str, _Offer[T]] = {}
    for offer in offers:
        if offer.name in taken:
            owner = "Perdure or the program"
        elif offer.name in kept:
            owner = kept[offer.name].part.title
        else:
            kept[offer.name] = offer
            continue
        problem = f"{kind} {offer.name} is left out: {owner} has one of that name; rename it"
        notes.append(offer.part.diagnostic(problem))
    return {name: offer.value for name, offer in kept.items()}


def _lost_tool(told: ToolDefinition, plugin: str) -> Tool[Any]:
    async def refuse(_: dict[str, Any], __: ToolContext) -> str:
        raise ToolError(
            f"{told.name} did not run: plugin {plugin} is not loaded now;"
            " go on without it, or tell the user"
        )

    return ToldTool(
        name=told.name,
        description=told.description,
        arguments=dict[str, Any],
        run=refuse,
        told=told,
    )
