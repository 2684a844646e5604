"""`perdure prompt`: put a prompt into the inbox of a session."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import click

from perdure.cli.arguments import given_text, prompt_text, session_id
from perdure.cli.attaching import image_option, read_files, went_along, with_named
from perdure.cli.inbox import outlook
from perdure.cli.opening import opened
from perdure.cli.output import Output
from perdure.cli.terminal import Terminal, noted
from perdure.history.events import Delivery


@click.command(short_help="Put a prompt into a session's inbox, and do not wait.")
@session_id
@click.argument("text")
@click.option(
    "--steer/--queue",
    default=True,
    help="Join the work that goes on at its next step (the default), or wait for its end.",
)
@image_option
@click.option(
    "--id",
    "prompt",
    metavar="PROMPT",
    callback=given_text,
    help="Your own id for the prompt: given again, it sends nothing twice.",
)
def prompt(session: str, text: str, steer: bool, files: list[Path], prompt: str | None) -> None:
    """Put TEXT into the inbox of session ID and print the id of the prompt.

    It is on disk when the command returns. A process that works on the session takes it; where
    nobody does, it waits for the next `perdure run -s ID`. Nothing is run here. A TEXT of - is
    read from standard input. Images that TEXT names, or --image, are sent with it, where the model
    takes images.

    \b
    Examples:
      perdure prompt 7k2m9q "Leave the tests alone."
      perdure prompt 7k2m9q --queue "Then write the change log."
      perdure prompt 7k2m9q --id mail-4711 - < mail.txt
    """
    named = text != "-"
    delivery: Delivery = "steer" if steer else "queue"
    anyio.run(_prompt, session, prompt_text(text), delivery, prompt, files, named)


async def _prompt(
    prefix: str, text: str, delivery: Delivery, prompt: str | None, files: list[Path], named: bool
) -> None:
    images = await read_files(files)
    async with opened() as runtime:
        session = await runtime.session(prefix)
        if named:
            terminal = Terminal(Output(sys.stdout), Output(sys.stderr))
            images = await with_named(session, text, images, terminal)
        admission = await session.prompt(
            text, images=images, id=prompt, delivery=delivery, wake=False
        )
        # Whoever reads the id may end this process: what was promised is kept by then.
        Output(sys.stdout).write(f"{admission.id}\n")
        # Of an id that was given before, the first prompt stands, with its own images.
        pending = (await session.state()).pending.get(admission.id)
        if words := went_along(pending.images if pending else ()):
            noted(words)
        noted(await outlook(session, admission.id))
