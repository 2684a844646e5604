"""Ids, heads and families of sessions as the commands show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from perdure.cli.page import Block, Words, line
from perdure.config.location import shown
from perdure.runtime import Runtime
from perdure.store.contract import SessionRow

_SHORTEST = 6


def shortened(ids: Iterable[str]) -> dict[str, str]:
    """Return, for each id, the shortest beginning that no other one has."""
    ordered = sorted(ids)
    pairs = zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False)
    return {
        each: each[: max(_SHORTEST, _common(each, before) + 1, _common(each, after) + 1)]
        for before, each, after in pairs
    }


def families(rows: Sequence[SessionRow]) -> list[tuple[SessionRow, bool]]:
    """Return the rows in order, with the tasks of each session below it; True marks a task.

    A task whose session is not here stands for itself. So does one of a task, which only an import
    can bring: nothing is lost or listed twice, whatever names whom.
    """
    tops = {row.id for row in rows if not row.parent}
    tasks: dict[str, list[SessionRow]] = {}
    for row in rows:
        if row.parent in tops:
            tasks.setdefault(row.parent, []).append(row)
    return [
        pair
        for row in rows
        if row.parent not in tops
        for pair in ((row, False), *((task, True) for task in tasks.get(row.id, ())))
    ]


def session_head(title: str, *facts: str) -> list[Block]:
    """Return what a session is, above whatever is shown of it."""
    return [
        line(Words(shown(title or "(no title)"), "strong")),
        line(Words(shown("  ".join(facts)), "dim")),
    ]


async def short_id(runtime: Runtime, session: str) -> str:
    """Return the shortest beginning of a session's id that no other one has."""
    return shortened(row.id for row in await runtime.sessions())[session]


def _common(one: str, other: str) -> int:
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))
