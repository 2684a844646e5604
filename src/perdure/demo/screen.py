"""How the demo looks: short lines with a label at the left, panels, and one table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from io import StringIO

import msgspec
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

_LABEL = 9
"""Columns of the labels at the left."""

_TABLE = 80
"""Columns that a table needs."""

_DASH = "\N{BOX DRAWINGS LIGHT HORIZONTAL}"

_PLAIN_TABLE = box.Box("    \n    \n -- \n    \n    \n -- \n    \n    \n", ascii=True)
"""A table in ASCII, with a line below the headers and one above the sums."""


class Look(msgspec.Struct, frozen=True):
    """What the output can show: columns, colours, and lines and boxes beyond ASCII."""

    width: int
    styled: bool = False
    drawn: bool = False


class Column(msgspec.Struct, frozen=True):
    """A column of a table, with what stands below all rows."""

    header: str
    width: int
    footer: str = ""
    right: bool = False


class Cell(msgspec.Struct, frozen=True):
    """A cell of a table."""

    text: str
    style: str = ""


class Screen:
    """Lays text out and hands it to `write` at once."""

    def __init__(self, write: Callable[[str], None], look: Look) -> None:
        self._write = write
        self._look = look
        self._after_title = False

    def title(self, text: str) -> None:
        """Begin a part."""
        characters = _DASH if self._look.drawn else "-"
        title = Text(f"{characters * 2} {text} ", style="bold")
        left = max(0, self._look.width - title.cell_len)
        self._print("", title.append(characters * left, "dim"))
        self._after_title = True

    def gap(self) -> None:
        """Leave an empty line, but for the place below a title."""
        if not self._after_title:
            self._print("")

    def line(self, label: str, text: str, style: str = "") -> None:
        """Show a paragraph beside a label."""
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(width=_LABEL)
        grid.add_column(overflow="fold")
        grid.add_row(Text(f" {label}", style=style), Text(text, style=style))
        self._print(grid)

    def panel(self, title: str, text: str, style: str) -> None:
        """Show a text in full, in a frame with a title."""
        panel = Panel(
            Text(text.strip(), style="default"),
            title=Text(title, style=f"bold {style}"),
            title_align="left",
            box=box.ROUNDED if self._look.drawn else box.ASCII,
            border_style=style,
        )
        self._print(Padding(panel, (0, 0, 0, _LABEL + 1)))

    def words(self, text: str, style: str = "") -> None:
        """Show a paragraph over the whole width."""
        self._print(Padding(Text(text, style=style), (0, 0, 0, 1)))

    def verbatim(self, *lines: str) -> None:
        """Show lines as they are, to be copied: never wrapped."""
        self._write("".join(f" {line}\n" for line in lines))

    def table(self, columns: Iterable[Column], rows: Iterable[Sequence[Cell]]) -> None:
        """Show rows between headers and footers."""
        table = Table(
            box=box.SIMPLE if self._look.drawn else _PLAIN_TABLE,
            padding=(0, 1, 0, 0),
            show_footer=True,
            show_edge=False,
            header_style="bold",
            footer_style="bold",
        )
        for each in columns:
            side = "right" if each.right else "left"
            table.add_column(each.header, each.footer, justify=side, width=each.width)
        for row in rows:
            table.add_row(*(Text(cell.text, style=cell.style) for cell in row))
        # On a narrower screen its lines are broken, which is better than cells cut short.
        self._print(Padding(table, (0, 0, 0, 1)), width=max(self._look.width, _TABLE))

    def _print(self, *each: RenderableType, width: int = 0) -> None:
        page = StringIO()
        console = Console(
            file=page,
            force_terminal=self._look.styled,
            color_system="standard" if self._look.styled else None,
            width=width or self._look.width,
            highlight=False,
            emoji=False,
            legacy_windows=False,
            _environ=dict(os.environ),
        )
        console.print(Group(*each))
        lines = page.getvalue().splitlines()
        self._after_title = False
        self._write("".join(f"{line.rstrip()}\n" for line in lines))
