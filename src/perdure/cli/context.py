"""`perdure context`: what the model has been told, beside what holds now."""

from __future__ import annotations

import sys

import anyio
import click
import msgspec

from perdure.cli.context_page import context_data, context_page
from perdure.cli.listing import row_of
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.page import show
from perdure.cli.sessions import session_head


@click.command(short_help="Show what the model has been told, beside what holds now.")
@click.argument("session", metavar="ID")
@click.option("--history", is_flag=True, help="Print each Baseline and System Message in full.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with everything.")
def context(session: str, history: bool, as_json: bool) -> None:
    """Show the System Context of session ID: its epochs, its sources, and the next step's news.

    The sources are looked at now; nothing is told and nothing is written.

    \b
    Examples:
      perdure context 7k2m9q
      perdure context 7k2m9q --history
    """
    anyio.run(_context, session, history, as_json)


async def _context(prefix: str, history: bool, as_json: bool) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        row = await row_of(runtime, session.id)
        view = await session.context()
    out = Output(sys.stdout)
    if as_json:
        out.write_bytes(msgspec.json.encode(context_data(view)) + b"\n")
    else:
        show(out, [*session_head(row), *context_page(view, history=history)])
