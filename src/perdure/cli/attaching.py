"""The images of a prompt on the command line: those given by option, and those that it names."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio.to_thread
import click

from perdure.cli.arguments import unicode_text
from perdure.cli.terminal import Warned
from perdure.errors import ImageRefused, UsageError
from perdure.history.content import Image
from perdure.images import MOST, Named, images_of, listed, named_in, read_image, require_room
from perdure.runtime import Runtime
from perdure.session.attaching import refusal, require_kind
from perdure.session.handle import Session


def _paths(
    _context: click.Context, _parameter: click.Parameter, given: Sequence[str]
) -> list[Path]:
    # Relative to where the command is run, not to where the session works.
    for each in given:
        if not unicode_text(each, "FILE of --image").strip():
            raise UsageError("the FILE of --image is empty; give one")
    return [Path(each).absolute() for each in given]


image_option = click.option(
    "--image",
    "files",
    metavar="FILE",
    multiple=True,
    callback=_paths,
    help="Send this image with the prompt (PNG, JPEG, GIF, WebP); may be given several times.",
)
"""The option that names images to send."""


async def read_files(files: Sequence[Path]) -> tuple[Image, ...]:
    """Return the images of the option; ImageRefused where one cannot be taken."""
    return await anyio.to_thread.run_sync(images_of, files, Path.cwd())


@asynccontextmanager
async def unless_refused(
    runtime: Runtime, session: Session, *, begun: bool
) -> AsyncGenerator[None]:
    """Delete a session that was `begun` for a prompt whose images are refused within."""
    try:
        yield
    except ImageRefused:
        if begun:
            await runtime.delete_session(session.id)
        raise


async def with_named(
    session: Session, text: str, images: Sequence[Image], terminal: Warned
) -> tuple[Image, ...]:
    """Return the images of the option, then those that the text names.

    One that the text only names is left out, with a warning, where the model takes none, the file
    is no good, or they are too many or too large together; with an @ before it, or by option, it is
    refused. Raises ImageRefused.
    """
    row = await session.row()
    named = await anyio.to_thread.run_sync(named_in, text, Path(row.directory))
    if not images and not named:
        return ()
    kinds, found = await session.image_kinds(), tuple(images)
    if not kinds and (images or any(each.asked for each in named)):
        raise ImageRefused(refusal(row.model))
    for image in images:
        require_kind(image, kinds, row.model)
    for each in _few(named, terminal) if kinds else ():
        try:
            image = await anyio.to_thread.run_sync(read_image, each.path)
            require_kind(image, kinds, row.model)
            more = listed((*found, image))
            require_room(more)
            found = more
        except ImageRefused as error:
            if each.asked:
                raise
            terminal.warn(f"not sent as an image: {error}")
    if not kinds:
        names = ", ".join(each.path.name for each in named)
        terminal.warn(f"{names}: only named, not sent; the model {row.model} takes no images")
    return found


def went_along(images: Sequence[Image]) -> str:
    """Return one line about the images that go with a prompt; empty where there are none."""
    if not images:
        return ""
    goes = "1 image goes" if len(images) == 1 else f"{len(images)} images go"
    return f"{goes} with the prompt: {', '.join(each.name or 'an image' for each in images)}"


def _few(named: Sequence[Named], terminal: Warned) -> Sequence[Named]:
    """Return the images to read: of a long list, only those that were asked for."""
    asked = [each for each in named if each.asked]
    if len(asked) > MOST:
        raise ImageRefused(
            f"the prompt asks for {len(asked)} images; {MOST} are the most at a time"
        )
    if len(named) <= MOST:
        return named
    terminal.warn(
        f"the prompt names {len(named)} images and {MOST} are the most at a time; only those with "
        "an @ before them are sent"
    )
    return asked
