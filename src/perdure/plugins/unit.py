"""One plugin in this process: loaded, failed, or not tried yet."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from perdure.config.schema import ProviderConfig
from perdure.plugins.loading import load
from perdure.plugins.origins import Origin
from perdure.plugins.scope import Scope
from perdure.plugins.view import Part, PluginDiagnostic

_NONE: Mapping[str, ProviderConfig] = MappingProxyType({})


class Unit:
    """A plugin and what it has registered. Without a scope it is not loaded; `problem` says why."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.name = origin.name
        self.scope: Scope | None = None
        self.problem: PluginDiagnostic | None = None
        self._providers = _NONE
        self._tried: object = None

    @property
    def was_tried(self) -> bool:
        """Whether it is loaded or has failed."""
        return self.scope is not None or self.problem is not None

    @property
    def is_due(self) -> bool:
        """Whether loading it may help: it was never tried, or its file changed since it failed."""
        if self.scope is not None:
            return False
        return self.problem is None or self._tried != self.origin.fingerprint()

    def part(self) -> Part:
        """Return how it stands at this moment."""
        return Part(self.name, self.origin.place, self.scope, self._last_providers())

    async def load(self, patience: float) -> None:
        """Run its registration and put the outcome in the place of what there was, at once.

        Cancelling leaves what there was.
        """
        tried = self.origin.fingerprint()
        loaded = await load(self.origin, patience)
        old, self._tried, self._providers = self.scope, tried, self._last_providers()
        if isinstance(loaded, Scope):
            self.scope, self.problem = loaded, None
        else:
            self.scope, self.problem = None, self.part().diagnostic(f"failed to load: {loaded}")
        if old is not None:
            await old.lifetime.end()

    async def unload(self) -> None:
        """Take everything back, as if it had never been loaded."""
        old, self.scope, self.problem, self._providers = self.scope, None, None, _NONE
        if old is not None:
            await old.lifetime.end()

    def _last_providers(self) -> Mapping[str, ProviderConfig]:
        return self._providers if self.scope is None else self.scope.providers
