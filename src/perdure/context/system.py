"""Compose Context Sources and ask what the model should be told."""

from __future__ import annotations

from typing import Any, final

from perdure.context.loading import load_all
from perdure.context.observation import Observation
from perdure.context.results import (
    Generation,
    Replaced,
    ReplacementBlocked,
    Unchanged,
    Updated,
)
from perdure.context.snapshot import Snapshot
from perdure.context.source import Source
from perdure.errors import DuplicateKey


@final
class SystemContext:
    """An opaque carrier of zero or more Context Sources, in a fixed order.

    Compose one with `make` and `combine`. `initialize`, `reconcile` and `replace` each observe
    once; `observe` gives the observation itself, from which several decisions can be taken.
    A source that cannot be observed never makes an operation fail.
    """

    __slots__ = ("_sources",)

    def __init__(self) -> None:
        self._sources: tuple[Source[Any], ...] = ()

    @classmethod
    def make(cls, source: Source[Any]) -> SystemContext:
        """Return the context of one source; its value type is hidden from here on."""
        context = cls()
        context._sources = (source,)
        return context

    @classmethod
    def combine(cls, *contexts: SystemContext) -> SystemContext:
        """Return one context with the sources of all, in the order given.

        Raises DuplicateKey, which names the key that two sources have.
        """
        context = cls()
        context._sources = tuple(source for part in contexts for source in part._sources)
        seen: set[str] = set()
        for key in context.keys:
            if key in seen:
                raise DuplicateKey(f"two context sources have the key {key!r}: rename one")
            seen.add(key)
        return context

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the sources, in the order of composition."""
        return tuple(source.key for source in self._sources)

    async def observe(self) -> Observation:
        """Load every source once, all concurrently, each under its timeout.

        Cancelling cancels the loaders; calls that run in threads are given up.
        """
        return Observation(self._sources, await load_all(self._sources))

    async def initialize(self) -> Generation:
        """Observe once and return the first Baseline with its Context Snapshot."""
        return (await self.observe()).initialize()

    async def reconcile(
        self, snapshot: Snapshot
    ) -> Unchanged | Updated | Replaced | ReplacementBlocked:
        """Observe once and return what must happen so that the model knows what holds now."""
        return (await self.observe()).reconcile(snapshot)

    async def replace(self, snapshot: Snapshot) -> Replaced | ReplacementBlocked:
        """Observe once and return a new Baseline, or why there cannot be one now."""
        return (await self.observe()).replace(snapshot)

    def __repr__(self) -> str:
        return f"SystemContext({', '.join(map(repr, self.keys))})"
