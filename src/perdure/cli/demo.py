"""`perdure demo`: watch one session run, with no key and no network."""

from __future__ import annotations

import shutil
import sys

import anyio
import click

from perdure.cli.output import Output

_WIDEST = 100
_PLAIN = 80
_PACE = 0.3
"""Seconds that a visitor at a terminal gets to read a short line."""


@click.command(short_help="Watch one session run, with no key and no network.")
@click.option("--keep", is_flag=True, help="Keep the session, and say how to look at it.")
def demo(keep: bool) -> int:
    """Watch one durable session while its world changes and its process is killed.

    The model is scripted; the HTTP, the database, the files and the processes are real. Everything
    happens in a temporary directory and is removed at the end. It takes less than 20 seconds, and
    ends with 1 if anything that it claims does not hold.

    \b
    Examples:
      perdure demo
      perdure demo --keep
    """
    # Only the demo needs the scripted provider and rich.
    from perdure.demo.screen import Look
    from perdure.demo.show import run_demo

    out = Output(sys.stdout)
    if not out.is_terminal:
        look, pace = Look(_PLAIN), 0.0
    else:
        columns = shutil.get_terminal_size().columns
        drawn = "utf" in (sys.stdout.encoding or "").lower()
        look, pace = Look(min(columns, _WIDEST), out.styled, drawn), _PACE
    return anyio.run(lambda: run_demo(out.write_raw, look, pace=pace, keep=keep))
