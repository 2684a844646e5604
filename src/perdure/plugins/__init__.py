"""Plugins: code of others that contributes Context Sources, tools and providers.

A plugin registers through a `Scope`. Closing the scope takes everything back, and a hot reload runs
the plugin against a fresh scope and swaps the two. A plugin that cannot be loaded takes nothing
away: what the model was told by it stands as Unavailable, its tools answer with an error, and only
its removal removes them.
"""

from __future__ import annotations

from perdure.plugins.origins import NamedPlugin, Plugin
from perdure.plugins.registry import Registry
from perdure.plugins.scope import Scope
from perdure.plugins.view import PluginDiagnostic, PluginStatus, PluginView, Taken

__all__ = [
    "NamedPlugin",
    "Plugin",
    "PluginDiagnostic",
    "PluginStatus",
    "PluginView",
    "Registry",
    "Scope",
    "Taken",
]
