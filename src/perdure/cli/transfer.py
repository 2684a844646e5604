"""`perdure sessions export` and `perdure sessions import`."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import BinaryIO

import anyio
import click

from perdure.cli.arguments import given_text, session_id
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.terminal import noted
from perdure.errors import UsageError

_STANDARD = "-"


@click.command("export", short_help="Write a session into one file.")
@session_id
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    required=True,
    callback=given_text,
    help="The file to write; - is standard output.",
)
def export(session: str, file: str) -> None:
    """Write session ID into FILE, with everything that was said and the stored tool outputs.

    An older FILE is replaced. Whoever can read it reads the whole conversation: prompts, tool
    outputs and facts are in clear. Keys are never in it.

    \b
    Examples:
      perdure sessions export 7k2m9q -o broken-build.jsonl
      perdure sessions export 7k2m9q -o - | gzip > broken-build.jsonl.gz
    """
    anyio.run(_export, session, file)


@click.command("import", short_help="Take a session from a file.")
@click.argument("file", metavar="FILE", callback=given_text)
def import_(file: str) -> None:
    """Take the session that `perdure sessions export` wrote into FILE, and print its id.

    It keeps its id and runs nothing. A FILE of - is standard input. If its directory is not on
    this machine, `perdure sessions move` says where it works from now on.

    \b
    Examples:
      perdure sessions import broken-build.jsonl
      gunzip < broken-build.jsonl.gz | perdure sessions import -
    """
    anyio.run(_import, file)


async def _export(prefix: str, file: str) -> None:
    async with opened() as runtime:
        session = await runtime.session(prefix)
        if file != _STANDARD:
            path = await session.export(file)
            noted(f"session {session.id} is in {path}, in clear, readable by you only")
            return
        out = Output(sys.stdout)
        async with aclosing(session.exported()) as blocks:
            async for block in blocks:
                out.write_bytes(block)


async def _import(file: str) -> None:
    async with opened() as runtime:
        session = await runtime.import_session(_standard_input() if file == _STANDARD else file)
    Output(sys.stdout).write(f"{session.id}\n")


def _standard_input() -> BinaryIO:
    if sys.stdin is None or sys.stdin.closed:
        raise UsageError("standard input is closed; give a file")
    if sys.stdin.isatty():
        raise UsageError("standard input is a terminal; give a file, or redirect one")
    return sys.stdin.buffer
