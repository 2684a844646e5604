"""Ids and statuses as listings show them."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.runtime import Runtime

_SHORTEST = 6


def shortened(ids: Iterable[str]) -> dict[str, str]:
    """Return, for each id, the shortest beginning that no other one has."""
    ordered = sorted(ids)
    pairs = zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False)
    return {
        each: each[: max(_SHORTEST, _common(each, before) + 1, _common(each, after) + 1)]
        for before, each, after in pairs
    }


async def short_id(runtime: Runtime, session: str) -> str:
    """Return the shortest beginning of a session's id that no other one has."""
    return shortened(row.id for row in await runtime.sessions())[session]


def _common(one: str, other: str) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
