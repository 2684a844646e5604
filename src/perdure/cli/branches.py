"""`perdure sessions fork` and `perdure sessions revert`."""

from __future__ import annotations

import re
import sys

import anyio
import click

from perdure.cli.arguments import given_text, session_id
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.terminal import noted

_SEQ = re.compile(r"[0-9]{1,18}")


@click.command(short_help="Copy a session up to a message.")
@session_id
@click.option(
    "--at",
    "message",
    metavar="MESSAGE",
    callback=given_text,
    help="The last message to copy; without it, all are.",
)
def fork(session: str, message: str | None) -> None:
    """Copy session ID up to a message into a new session, and print the new one's id.

    MESSAGE is a number that `perdure sessions show` prints, or the id of a prompt. The copy begins
    its requests with the same bytes, so it is served from the same provider cache. Prompts that
    still wait are not copied, and nothing is run.

    \b
    Examples:
      perdure sessions fork 7k2m9q
      perdure sessions fork 7k2m9q --at 12
    """
    anyio.run(_fork, session, None if message is None else place(message))


@click.command(short_help="Go back to an earlier message.")
@session_id
@click.argument("message", metavar="MESSAGE", callback=given_text)
def revert(session: str, message: str) -> None:
    """Take session ID back to MESSAGE, the last one that stays in its history.

    MESSAGE is a number that `perdure sessions show` prints, or the id of a prompt. The model no
    longer sees what came after it; the log keeps it. Files are not touched: what tools have
    written stays as it is. A session that is being worked on must be interrupted first.

    \b
    Examples:
      perdure sessions revert 7k2m9q 12
    """
    anyio.run(_revert, session, place(message))


def place(message: str) -> int | str:
    """Return the seq that a number is, or the text as the id that it may be."""
    return int(message) if _SEQ.fullmatch(message) else message


async def _fork(prefix: str, message: int | str | None) -> None:
    async with opened() as runtime:
        copy = await (await runtime.session(prefix)).fork(message)
    Output(sys.stdout).write(f"{copy.id}\n")


async def _revert(prefix: str, message: int | str) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        await session.revert(message)
    noted(
        f"session {session.id} is back at message {message}; the log keeps what came after it, and "
        "files stay as they are"
    )
