"""The images that go with a Prompt: read, and held against what the model takes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import anyio.to_thread

from perdure.errors import ImageRefused
from perdure.history.content import Image
from perdure.images import images_of
from perdure.session.workplace import Workplaces


async def takes_images(workplaces: Workplaces, directory: str, model: str) -> bool:
    """Say whether `provider/model` takes images, by what is known and configured at a directory.

    Raises UnknownProvider, UnknownModel, ConfigurationError and DirectoryNotFound.
    """
    workplace = await workplaces.at(directory)
    return workplace.models.profile(model).images


async def attached(
    workplaces: Workplaces, directory: str, model: str, images: Iterable[Image | str | Path]
) -> tuple[Image, ...]:
    """Return images, those given by path read; paths are relative to `directory`.

    Raises ImageRefused where one cannot be taken, and where the model takes none.
    """
    given = tuple(images)
    if not given:
        return ()
    if not await takes_images(workplaces, directory, model):
        raise ImageRefused(refusal(model))
    return await anyio.to_thread.run_sync(images_of, given, Path(directory))


def refusal(model: str) -> str:
    """Return the words for a model that takes no images."""
    provider, _, name = model.partition("/")
    return (
        f"the model {model} takes no images; choose one that does, or, if it does, set "
        f'images = true in [providers.{provider}.models."{name}"] of the configuration'
    )
