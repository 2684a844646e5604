"""JSON as the wire has it: exact ways out, and a forgiving way in."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import msgspec

DEPTH = 100
"""How many values may lie inside one another. Much deeper ones could be read but not written."""

_verbatim = msgspec.json.Encoder()
_sorted = msgspec.json.Encoder(order="deterministic")


def encode(value: object) -> bytes:
    """Return a value as compact JSON, its members in the order in which they stand."""
    return _verbatim.encode(value)


def canonical(value: object) -> bytes:
    """Return a value as compact JSON with sorted members: equal values give equal bytes."""
    return _sorted.encode(value)


def parse(data: str | bytes) -> Any:
    """Return the value of a JSON text, or None where it is not one or nested too deeply.

    Half a surrogate pair is let through, since some servers cut an emoji in two; `mend` it
    before use.
    """
    value = _read(data)
    # Counting is far cheaper than walking, and is enough for almost everything that comes.
    return None if _brackets(data) >= DEPTH and _is_deep(value) else value


def _read(data: str | bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError):
        pass
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _brackets(data: str | bytes) -> int:
    if isinstance(data, str):
        return data.count("[") + data.count("{")
    return data.count(b"[") + data.count(b"{")


def _is_deep(value: Any) -> bool:
    """Tell whether a value has more than `DEPTH` levels; walks them without recursion."""
    level = [value]
    for _ in range(DEPTH):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()


def parse_object(data: str | bytes) -> dict[str, Any] | None:
    """Return the value of a JSON text that is an object, or None where it is not one."""
    value = parse(data)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def is_object(text: str) -> bool:
    """Tell whether a text is one strict JSON object, fit to be put into a request as it is."""
    try:
        msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return False
    return True


def mend(text: str) -> str:
    """Return a text with surrogate pairs joined and halves of them replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def mend_all(value: Any) -> Any:
    """Return JSON data with every text in it mended."""
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, list):
        return [mend_all(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {mend(key): mend_all(item) for key, item in cast("dict[str, Any]", value).items()}
    return value


def as_object(value: object) -> dict[str, Any]:
    """Return a JSON object, or an empty one where the value is something else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_array(value: object) -> list[Any]:
    """Return a JSON array, or an empty one where the value is something else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return a JSON string, or an empty one where the value is something else."""
    return value if isinstance(value, str) else ""


MOST = 2**53
"""The largest number that every reader of JSON takes for what it is."""


def as_count(value: object) -> int:
    """Return a number of tokens: zero where the value is no sensible one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return 0
    return min(max(value, 0), MOST)
