"""`perdure context`: what the model has been told, beside what holds now."""

from __future__ import annotations

import sys
from typing import Any

import anyio
import click
import msgspec

from perdure.cli.arguments import session_id, unicode_text
from perdure.cli.context_page import context_data, context_page
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.page import show
from perdure.cli.sessions import standing_words
from perdure.cli.terminal import noted
from perdure.errors import UsageError
from perdure.tools.printable import printable, shortened

_LONGEST = 100
"""Characters of a value that a line repeats."""


@click.command(short_help="Show what the model has been told, beside what holds now.")
@session_id
@click.argument("change", metavar="[set KEY JSON]", nargs=-1)
@click.option("--at", metavar="SEQ", type=int, help="Show what had been told at this event.")
@click.option("--history", is_flag=True, help="Print each Baseline and System Message in full.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with everything.")
def context(
    session: str, change: tuple[str, ...], at: int | None, history: bool, as_json: bool
) -> None:
    """Show the System Context of session ID: its epochs, its sources, and the next step's news.

    The sources are looked at now; nothing is told and nothing is written. With `set KEY JSON`, the
    session entry KEY gets a value instead, which the next step tells.

    \b
    Examples:
      perdure context 7k2m9q
      perdure context 7k2m9q --history
      perdure context 7k2m9q --at 12
      perdure context 7k2m9q set release '"1.4"'
    """
    match change:
        case ():
            anyio.run(_context, session, at, history, as_json)
        case ("set", key, value) if at is None and not history and not as_json:
            anyio.run(_set, session, unicode_text(key, "key"), _json(value))
        case _:
            raise UsageError(f"{_wrong(change)}; see `perdure context --help`")


def _wrong(change: tuple[str, ...]) -> str:
    """Say why what stands behind the id makes no sense."""
    word, *others = change
    if word != "set":
        return (
            f"{shortened(printable(word), _LONGEST)!r} is no change; the only one is `set KEY JSON`"
        )
    if len(others) != 2:
        return "`set` takes a KEY and one JSON value; quote a value that has spaces"
    return "`set KEY JSON` takes no options"


def _json(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise UsageError(
            f"the value is not JSON ({error}); quote text twice, as in '\"text\"'"
        ) from error


async def _set(prefix: str, key: str, value: Any) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        await session.set_entry(key, value)
    text = shortened(msgspec.json.encode(value).decode(), _LONGEST)
    noted(f"session {session.id}: entry/{key} is now {text}; the model is told at the next step")


async def _context(prefix: str, at: int | None, history: bool, as_json: bool) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        standing = await runtime.standing(await session.row())
        view = await session.context(at=at)
    moment = standing_words(standing) if at is None else f"as of event {at}"
    out = Output(sys.stdout)
    if as_json:
        out.write_bytes(msgspec.json.encode(context_data(view)) + b"\n")
    else:
        show(out, context_page(view, moment, history=history))
