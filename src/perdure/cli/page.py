"""A page to read: built once, shown with colours and wrapping on a terminal, plain in a pipe."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Literal

import msgspec

from perdure.cli.output import Output, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

Style = Literal["", "strong", "dim", "good", "warn", "bad"]
"""What a piece of text is, never how it looks."""

_PADDING = re.compile(r" +\n")

_LOOKS: dict[Style, str] = {
    "": "",
    "strong": "bold",
    "dim": "dim",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
}


class Words(msgspec.Struct, frozen=True):
    """Text of one style."""

    text: str
    style: Style = ""


class Line(msgspec.Struct, frozen=True):
    """A paragraph: words side by side, indented by so many columns."""

    words: tuple[Words, ...] = ()
    indent: int = 0


class Table(msgspec.Struct, frozen=True):
    """Rows of cells below their headers."""

    headers: tuple[str, ...]
    rows: tuple[tuple[Words, ...], ...]


class Markdown(msgspec.Struct, frozen=True):
    """What a model wrote."""

    text: str
    indent: int = 0


Block = Line | Table | Markdown


def line(*words: str | Words, indent: int = 0) -> Line:
    """Return a paragraph of text and styled words."""
    return Line(tuple(Words(each) if isinstance(each, str) else each for each in words), indent)


def heading(text: str) -> list[Block]:
    """Return a heading with an empty line before it."""
    return [line(), line(Words(text, "strong"))]


def paragraphs(text: str, style: Style = "", indent: int = 0) -> list[Block]:
    """Return text of several lines, each on its own line."""
    return [line(Words(each, style), indent=indent) for each in text.splitlines()]


def table(headers: Sequence[str], rows: Iterable[Sequence[str | Words]]) -> Table:
    """Return rows of text and styled words below their headers."""
    cells = (tuple(Words(c) if isinstance(c, str) else c for c in row) for row in rows)
    return Table(tuple(headers), tuple(cells))


def show(output: Output, blocks: Iterable[Block]) -> None:
    """Write a page. Raises OutputGone."""
    text = _laid_out(blocks, output.styled) if output.is_terminal else _plain(blocks)
    output.write_raw(text)


def _plain(blocks: Iterable[Block]) -> str:
    lines: list[str] = []
    for block in blocks:
        match block:
            case Line(words, indent):
                lines.append(" " * indent + "".join(each.text for each in words))
            case Markdown(text, indent):
                lines.extend(" " * indent + each for each in text.split("\n"))
            case Table(headers, rows):
                lines.extend(_columns([headers, *(_texts(row) for row in rows)]))
    return "".join(f"{each.rstrip()}\n" for each in lines)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _texts(row: Sequence[Words]) -> list[str]:
    return [cell.text for cell in row]


def _laid_out(blocks: Iterable[Block], styled: bool) -> str:
    # rich is slow to import and only a terminal needs it.
    from rich.console import Console

    page = StringIO()
    console = Console(
        file=page,
        force_terminal=True,
        color_system="standard" if styled else None,
        width=shutil.get_terminal_size().columns,
        highlight=False,
        emoji=False,
        legacy_windows=False,
        _environ=dict(os.environ),
    )
    for block in blocks:
        _print(console, block)
    # Spaces up to the edge would wrap when the terminal becomes narrower, and be copied.
    return _PADDING.sub("\n", page.getvalue())


def _print(console: Console, block: Block) -> None:
    from rich.padding import Padding

    match block:
        case Line(words, indent):
            text = _text(words)
            console.print(Padding(text, (0, 0, 0, indent), expand=False) if text else "")
        case Markdown(text, indent):
            console.print(Padding(_markdown(text), (0, 0, 0, indent)))
        case Table():
            console.print(_grid(block))


def _text(words: Iterable[Words]) -> RenderableType:
    from rich.text import Text

    # Text, unlike a string, is not read as markup. It would break a line at a tab.
    parts = ((visible(each.text).expandtabs(), _LOOKS[each.style]) for each in words)
    return Text.assemble(*parts)


def _markdown(text: str) -> RenderableType:
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown as Rendered

    # A link is shown with its address, so that its words cannot say another one.
    rendered = Rendered(visible(text), hyperlinks=False)
    # HTML and definitions of links would be left out of the page; as text they are seen.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    rendered.parsed = parser.disable("reference").parse(rendered.markup)
    return rendered


def _grid(block: Table) -> RenderableType:
    from rich.table import Table as Grid

    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in block.headers:
        grid.add_column(header, overflow="fold")
    for row in block.rows:
        grid.add_row(*(_text([cell]) for cell in row))
    return grid
