"""`perdure cache`: how the provider's prompt cache served a session."""

from __future__ import annotations

import sys

import anyio
import click
import msgspec

from perdure.cli.arguments import session_id
from perdure.cli.cache_page import cache_data, cache_page
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.page import show


@click.command(short_help="Show how the provider's prompt cache served a session.")
@session_id
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with everything.")
def cache(session: str, as_json: bool) -> None:
    """Show, request by request, what session ID could have had from the prompt cache, and had.

    Of each request: how much of it had been sent before, the input tokens that the provider read
    from its cache beside those that were to be expected, and why it was less. A request that
    should have been served from the cache and was not is said to have missed it.

    \b
    Examples:
      perdure cache 7k2m9q
      perdure cache 7k2m9q --json
    """
    anyio.run(_cache, session, as_json)


async def _cache(prefix: str, as_json: bool) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        report = await session.cache()
        row = await session.row()
    out = Output(sys.stdout)
    if as_json:
        out.write_bytes(msgspec.json.encode(cache_data(report)) + b"\n")
    else:
        show(out, cache_page(report, row.title))
