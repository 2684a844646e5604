"""A durable session runtime for LLM agents.

A session keeps its history through crashes, and at every provider call its model knows the facts
that hold now, while the prefix that the provider has cached stays as it is. Start with `Runtime`;
declare facts of your own with `Source`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perdure.config.schema import Config, ModelConfig, Price, ProviderConfig
    from perdure.context import (
        ABSENT,
        UNAVAILABLE,
        Absent,
        Diagnostic,
        Generation,
        Observation,
        Replaced,
        ReplacementBlocked,
        Source,
        SourceSnapshot,
        SystemContext,
        Unavailable,
        Unchanged,
        Updated,
    )
    from perdure.errors import (
        AmbiguousId,
        AuthenticationFailed,
        BrokenStream,
        ConcurrencyError,
        ConfigurationError,
        ConnectionFailed,
        ContentRefused,
        ContextError,
        ContextOverflow,
        CrashLoop,
        DirectoryNotFound,
        DuplicateKey,
        EmptyAnswer,
        ImageRefused,
        ImportRefused,
        InvalidKey,
        InvalidRequest,
        LeaseLost,
        ModelNotFound,
        NoProvider,
        PerdureError,
        PromptConflict,
        ProviderError,
        ProviderOverloaded,
        QuotaExceeded,
        RateLimited,
        Refused,
        SessionNotFound,
        SilentStream,
        SlowStream,
        StaleBoundary,
        StoreDamaged,
        StoreError,
        StoreFull,
        StoreLocked,
        StoreReadOnly,
        StoreTooNew,
        ToolError,
        Transient,
        UnknownModel,
        UnknownProvider,
        UsageError,
    )
    from perdure.history.content import Image
    from perdure.history.events import LiveRecord, Record
    from perdure.runtime import Runtime
    from perdure.session.caching import CachedRequest, CacheReport
    from perdure.session.handle import Admission, Session
    from perdure.session.inbox import PendingPrompt
    from perdure.session.spending import PrefixPrice, Spending, Spent
    from perdure.tools.base import Tool, ToolContext, ToolOutput
    from perdure.tools.permissions import PermissionAnswer, PermissionRequest

__all__ = [
    "ABSENT",
    "UNAVAILABLE",
    "Absent",
    "Admission",
    "AmbiguousId",
    "AuthenticationFailed",
    "BrokenStream",
    "CacheReport",
    "CachedRequest",
    "ConcurrencyError",
    "Config",
    "ConfigurationError",
    "ConnectionFailed",
    "ContentRefused",
    "ContextError",
    "ContextOverflow",
    "CrashLoop",
    "Diagnostic",
    "DirectoryNotFound",
    "DuplicateKey",
    "EmptyAnswer",
    "Generation",
    "Image",
    "ImageRefused",
    "ImportRefused",
    "InvalidKey",
    "InvalidRequest",
    "LeaseLost",
    "LiveRecord",
    "ModelConfig",
    "ModelNotFound",
    "NoProvider",
    "Observation",
    "PendingPrompt",
    "PerdureError",
    "PermissionAnswer",
    "PermissionRequest",
    "PrefixPrice",
    "Price",
    "PromptConflict",
    "ProviderConfig",
    "ProviderError",
    "ProviderOverloaded",
    "QuotaExceeded",
    "RateLimited",
    "Record",
    "Refused",
    "Replaced",
    "ReplacementBlocked",
    "Runtime",
    "Session",
    "SessionNotFound",
    "SilentStream",
    "SlowStream",
    "Source",
    "SourceSnapshot",
    "Spending",
    "Spent",
    "StaleBoundary",
    "StoreDamaged",
    "StoreError",
    "StoreFull",
    "StoreLocked",
    "StoreReadOnly",
    "StoreTooNew",
    "SystemContext",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "Transient",
    "Unavailable",
    "Unchanged",
    "UnknownModel",
    "UnknownProvider",
    "Updated",
    "UsageError",
]

# What a program does not use, it does not wait for: `import perdure` alone loads no database driver
# and no event loop.
_HOMES = {
    "perdure.config.schema": (
        "Config",
        "ModelConfig",
        "Price",
        "ProviderConfig",
    ),
    "perdure.context": (
        "ABSENT",
        "UNAVAILABLE",
        "Absent",
        "Diagnostic",
        "Generation",
        "Observation",
        "Replaced",
        "ReplacementBlocked",
        "Source",
        "SourceSnapshot",
        "SystemContext",
        "Unavailable",
        "Unchanged",
        "Updated",
    ),
    "perdure.errors": (
        "AmbiguousId",
        "AuthenticationFailed",
        "BrokenStream",
        "ConcurrencyError",
        "ConfigurationError",
        "ConnectionFailed",
        "ContentRefused",
        "ContextError",
        "ContextOverflow",
        "CrashLoop",
        "DirectoryNotFound",
        "DuplicateKey",
        "EmptyAnswer",
        "ImageRefused",
        "ImportRefused",
        "InvalidKey",
        "InvalidRequest",
        "LeaseLost",
        "ModelNotFound",
        "NoProvider",
        "PerdureError",
        "PromptConflict",
        "ProviderError",
        "ProviderOverloaded",
        "QuotaExceeded",
        "RateLimited",
        "Refused",
        "SessionNotFound",
        "SilentStream",
        "SlowStream",
        "StaleBoundary",
        "StoreDamaged",
        "StoreError",
        "StoreFull",
        "StoreLocked",
        "StoreReadOnly",
        "StoreTooNew",
        "ToolError",
        "Transient",
        "UnknownModel",
        "UnknownProvider",
        "UsageError",
    ),
    "perdure.history.content": ("Image",),
    "perdure.history.events": (
        "LiveRecord",
        "Record",
    ),
    "perdure.runtime": ("Runtime",),
    "perdure.session.caching": (
        "CacheReport",
        "CachedRequest",
    ),
    "perdure.session.handle": (
        "Admission",
        "Session",
    ),
    "perdure.session.inbox": ("PendingPrompt",),
    "perdure.session.spending": (
        "PrefixPrice",
        "Spending",
        "Spent",
    ),
    "perdure.tools.base": (
        "Tool",
        "ToolContext",
        "ToolOutput",
    ),
    "perdure.tools.permissions": (
        "PermissionAnswer",
        "PermissionRequest",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
