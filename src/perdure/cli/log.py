"""`perdure events` and `perdure request`: what was stored, as it was stored."""

from __future__ import annotations

import sys
from contextlib import aclosing

import anyio
import click

from perdure.cli.arguments import WholeNumber, session_id
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.records import json_line


@click.command(short_help="Print the event log of a session as JSON lines.")
@session_id
@click.option(
    "--after", metavar="N", type=WholeNumber(min=0), default=0, help="Begin behind this seq."
)
@click.option("--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
def events(session: str, after: int, follow: bool) -> None:
    """Print the events of session ID, one JSON object a line: seq, type, time, data.

    With --follow, what any process adds to the session is printed as it comes.

    \b
    Examples:
      perdure events 7k2m9q
      perdure events 7k2m9q --after 120 --follow
    """
    anyio.run(_events, session, after, follow)


@click.command(short_help="Print the exact request body of a step.")
@session_id
@click.option(
    "--step", metavar="N", type=WholeNumber(min=1), help="Which step; the last one by default."
)
def request(session: str, step: int | None) -> None:
    """Print the request body of a step of session ID, byte for byte as it was sent.

    A line end follows it.

    \b
    Examples:
      perdure request 7k2m9q | jq .messages
      perdure request 7k2m9q --step 3
    """
    anyio.run(_request, session, step)


async def _events(prefix: str, after: int, follow: bool) -> None:
    out = Output(sys.stdout)
    async with opened() as runtime:
        session = await runtime.session(prefix)
        last = (await session.row()).last_seq
        if after >= last and not follow:
            return
        async with aclosing(session.events(after=after)) as records:
            async for record in records:
                out.write_bytes(json_line(record))
                if not follow and record.seq is not None and record.seq >= last:
                    return


async def _request(prefix: str, step: int | None) -> None:
    async with opened() as runtime:
        body = await (await runtime.session(prefix)).request(step)
    Output(sys.stdout).write_bytes(body + b"\n")
