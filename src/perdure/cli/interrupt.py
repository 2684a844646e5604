"""`perdure interrupt`: stop what runs in a session, whichever process runs it."""

from __future__ import annotations

import sys

import anyio
import click

from perdure.cli.arguments import session_id
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.page import line, show
from perdure.session.handle import Session
from perdure.session.owner import described
from perdure.store.contract import SessionRow

_PATIENCE = 5.0
_LOOK = 0.05


@click.command(short_help="Stop what runs in a session.")
@session_id
def interrupt(session: str) -> None:
    """Stop what runs in session ID, whichever process runs it.

    What ran is settled, and prompts that wait are kept. Where nobody works, nothing changes.

    \b
    Example:
      perdure interrupt 7k2m9q
    """
    said = anyio.run(_interrupt, session)
    show(Output(sys.stdout), [line(said)])


async def _interrupt(prefix: str) -> str:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        before = await session.row()
        if not await session.interrupt():
            return f"nobody works on session {session.id}; there is nothing to interrupt"
        if not before.owner:  # it began just then
            before = await session.row()
        with anyio.move_on_after(_PATIENCE):
            return await _stopped(session, before)
        return (
            f"session {session.id} was asked to stop and has not yet; {described(before.owner)} "
            "stops as soon as it can"
        )


async def _stopped(session: Session, before: SessionRow) -> str:
    """Wait until the drain has ended that ran at that time; say what there is now."""
    row = await session.row()
    while row.owner and row.token == before.token:
        await anyio.sleep(_LOOK)
        row = await session.row()
    if row.owner:
        return f"session {row.id} was interrupted; {described(row.owner)} goes on with what waits"
    kept = f"; prompts that wait: {row.pending}" if row.pending else ""
    return f"session {row.id} was interrupted{kept}"
