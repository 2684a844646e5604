"""Sources for the tests of the algebra: each says in plain words what it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.context import Source, SystemContext

Renderer = Callable[[Any], Any]
UpdateRenderer = Callable[[Any, Any], Any]


def fact(
    key: str,
    value: Any,
    kind: Any = str,
    *,
    baseline: Renderer | None = None,
    update: UpdateRenderer | None = None,
    removed: Renderer | None = None,
    **options: Any,
) -> Source[Any]:
    """Return a source that holds a value and has removal text; a callable is its loader."""

    def load() -> Any:
        return value

    return Source[Any](
        key=key,
        type=kind,
        load=value if callable(value) else load,
        baseline=baseline or (lambda current: f"{key} is {current!r}."),
        update=update or (lambda _, current: f"{key} is now {current!r}."),
        removed=removed or (lambda _: f"{key} no longer applies."),
        **{"inline": not callable(value)} | options,
    )


def lasting(key: str, value: Any, kind: Any = str, **options: Any) -> Source[Any]:
    """Return a source without removal text."""
    return without_removal(fact(key, value, kind, **options))


def without_removal(source: Source[Any]) -> Source[Any]:
    """Return the same source without removal text."""
    return Source[Any](
        key=source.key,
        type=source.type,
        load=source.load,
        baseline=source.baseline,
        update=source.update,
        inline=source.inline,
    )


def context(*sources: Source[Any]) -> SystemContext:
    """Compose sources in the order given."""
    return SystemContext.combine(*map(SystemContext.make, sources))


def raising(*_: Any) -> Any:
    """Fail, as a loader or a renderer may."""
    raise KeyError("the secret value")
