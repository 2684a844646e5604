"""Sources for the tests of the algebra: each says in plain words what it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.context import Source, SystemContext


def fact(key: str, value: Any, kind: Any = str, **given: Any) -> Source[Any]:
    """Return a source that holds a value; a callable is its loader."""
    load: Callable[[], Any] = value if callable(value) else lambda: value
    described: dict[str, Any] = {
        "key": key,
        "type": kind,
        "load": load,
        "baseline": lambda current: f"{key} is {current!r}.",  # pyright: ignore[reportUnknownLambdaType]
        "update": lambda _, current: f"{key} is now {current!r}.",  # pyright: ignore[reportUnknownLambdaType]
        "removed": lambda _: f"{key} no longer applies.",  # pyright: ignore[reportUnknownLambdaType]
        "inline": not callable(value),
    }
    return Source[Any](**(described | given))


def lasting(key: str, value: Any, kind: Any = str, **given: Any) -> Source[Any]:
    """Return a source without removal text."""
    return fact(key, value, kind, removed=None, **given)


def context(*sources: Source[Any]) -> SystemContext:
    """Compose sources in the order given."""
    return SystemContext.combine(*map(SystemContext.make, sources))


def raising(*_: Any) -> Any:
    """Fail, as a loader or a renderer may."""
    raise KeyError("the secret value")
