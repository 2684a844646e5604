"""Plugins for the tests: what they register, and whether they fail, can change at any time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from perdure.config.schema import ProviderConfig
from perdure.context import Source
from perdure.plugins import PluginView, Registry, Scope
from perdure.tools import Tool, ToolContext

LOCAL = ProviderConfig("openai-chat", "http://127.0.0.1:1/v1")


class Nothing(msgspec.Struct):
    """No arguments."""


def tool(name: str, answer: str = "done") -> Tool[Nothing]:
    """Return a tool that answers always the same."""

    async def run(_: Nothing, __: ToolContext) -> str:
        return answer

    return Tool(name=name, description=f"Answers {answer}.", arguments=Nothing, run=run)


class Changeable:
    """A plugin whose next registration can be set."""

    def __init__(
        self,
        name: str,
        sources: Iterable[Source[Any]] = (),
        tools: Iterable[Tool[Any]] = (),
        providers: Mapping[str, ProviderConfig] | None = None,
    ) -> None:
        self.name = name
        self.sources = list(sources)
        self.tools = list(tools)
        self.providers = dict(providers or {})
        self.error: BaseException | None = None
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self.closed: list[int] = []
        self.runs = 0
        self.scope: Scope | None = None

    async def register(self, scope: Scope) -> None:
        """Register half, let others run, then fail or register the rest."""
        self.runs += 1
        run = self.runs
        self.scope = scope
        scope.on_close(lambda: self.closed.append(run))
        for each in self.tools:
            scope.tool(each)
        for name, config in self.providers.items():
            scope.provider(name, config)
        for source in self.sources[:1]:
            scope.source(source)
        if self.meanwhile is not None:
            await self.meanwhile()
        if self.error is not None:
            raise self.error
        for source in self.sources[1:]:
            scope.source(source)


def without_installed(*plugins: Any, **options: Any) -> Registry:
    """Return a registry that sees no installed package."""
    return Registry(plugins, installed=lambda: (), **options)


def keys(view: PluginView, *told: str) -> tuple[str, ...]:
    """Return the keys that a session which was told these would compose."""
    return view.compose(told).keys


def messages(view: PluginView) -> list[str]:
    """Return all diagnostics as they are logged."""
    return [str(diagnostic) for diagnostic in view.diagnostics]
