"""How the demo ends: the table, whether the claims hold, and where to look further."""

from __future__ import annotations

import shlex

from perdure.demo.findings import Evidence, StepRow, claims, step_rows
from perdure.demo.screen import Cell, Column, Screen
from perdure.demo.world import World

_RULE = (
    "Billed: input, in units of one fresh token; read from the cache it counts 0.1, written to "
    "it 1.25. Estimated at 4 bytes a token; the cache stays warm. Without: the facts are in a "
    "system prompt that is rebuilt when one changes, and the cache loses that and all history "
    "behind it. With 100,000 tokens of history, one change costs about 10,000 with and 125,000 "
    "without."
)


def judge(screen: Screen, evidence: Evidence) -> bool:
    """Show what was checked, then the table; return whether every claim holds."""
    screen.title("checked: the bytes received, the log in the database, the files")
    judged = list(claims(evidence))
    for claim in judged:
        label, style = ("ok", "green") if claim.holds else ("FAILED", "bold red")
        screen.line(label, claim.text, style)
    _show_table(screen, step_rows(evidence))
    screen.words(_RULE, "dim")
    if not all(claim.holds for claim in judged):
        screen.words("Something that the demo claims did not hold: see FAILED above.", "bold red")
        return False
    return True


def tell_how_to_look(screen: Screen, world: World, session: str) -> None:
    """Say how to look at what was kept."""
    screen.title("kept; look at it with")
    root, configuration, store = (
        shlex.quote(str(path)) for path in (world.root, world.configuration, world.store)
    )
    screen.verbatim(
        f"export PERDURE_CONFIG_DIR={configuration}",
        f"export PERDURE_STORE={store}",
        f"perdure context {session} --history",
        f"perdure request {session} --step 8",
        f"perdure events {session}",
        f"rm -r {root}",
    )


def _show_table(screen: Screen, rows: list[StepRow]) -> None:
    with_, without = sum(row.billed for row in rows), sum(row.without for row in rows)
    columns = (
        Column("step", 4),
        Column("what changed", 18, "in all"),
        Column("what the model was told", 27, f"{without / with_:.1f} times as much without"),
        Column("prefix\nkept", 6),
        Column("billed\nwith", 6, f"{with_:,.0f}", right=True),
        Column("billed\nwithout", 7, f"{without:,.0f}", right=True),
    )
    screen.title("step by step")
    screen.table(columns, (_cells(row) for row in rows))


def _cells(row: StepRow) -> list[Cell]:
    return [
        Cell(f"{row.step}"),
        Cell(row.changed, "yellow"),
        Cell(row.told, "magenta") if row.told else Cell("nothing new", "dim"),
        _kept(row),
        Cell(f"{row.billed:,.0f}"),
        Cell(f"{row.without:,.0f}"),
    ]


def _kept(row: StepRow) -> Cell:
    match row.kept:
        case None:
            return Cell("-", "dim")
        case True:
            return Cell("yes", "green")
        case False:
            return Cell("NO", "bold red")
