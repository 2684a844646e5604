"""Compare and examine values part by part.

Python says that `True == 1`, and some classes compare by identity or not at all. A context value
is therefore compared by its structure: containers by their elements, records field by field, and
only what has no parts by its own `==`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any, cast

import msgspec


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal all the way down.

    A bool equals only itself; other numbers are compared as numbers. Neither the order of keys nor
    that of a set counts. Records are equal when their class and all of their fields are.
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return _same_mapping(cast("dict[Any, Any]", left), cast("dict[Any, Any]", right))
    if isinstance(left, (set, frozenset)) and isinstance(right, (set, frozenset)):
        return _same_set(cast("set[Any]", left), cast("set[Any]", right))
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return _same_sequence(cast("list[Any]", left), cast("list[Any]", right))
    return _same_thing(cast("object", left), right)


def _same_thing(left: object, right: object) -> bool:
    names = _field_names(left)
    if names is None:
        return bool(left == right)
    return type(left) is type(right) and all(
        same(getattr(left, name), getattr(right, name)) for name in names
    )


def _same_mapping(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)


def _same_set(left: set[Any], right: set[Any]) -> bool:
    twins = {element: element for element in right}
    return len(left) == len(right) and all(
        element in twins and same(element, twins[element]) for element in left
    )


def _same_sequence(left: list[Any], right: list[Any]) -> bool:
    return len(left) == len(right) and all(map(same, left, right))


def is_finite(value: Any) -> bool:
    """Return whether a value holds no NaN and no infinity, however deep."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Decimal):
        return value.is_finite()
    return all(is_finite(part) for part in _parts(value))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return _keys_and_values(cast("dict[Any, Any]", value))
    if isinstance(value, (list, tuple, set, frozenset)):
        return cast("Iterable[Any]", value)
    return (getattr(value, name) for name in _field_names(cast("object", value)) or ())


def _keys_and_values(mapping: dict[Any, Any]) -> Iterator[Any]:
    yield from mapping
    yield from mapping.values()


def _field_names(value: object) -> Iterable[str] | None:
    """Return the names of a record's fields, or None where the value is no record."""
    kind = cast("Any", type(value))
    if issubclass(kind, msgspec.Struct):
        return kind.__struct_fields__
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    if hasattr(kind, "__pydantic_fields__"):
        return (*kind.__pydantic_fields__, "__pydantic_extra__")
    if hasattr(kind, "__attrs_attrs__"):
        return [attribute.name for attribute in kind.__attrs_attrs__]
    return None
