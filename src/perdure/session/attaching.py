"""The images that go with a Prompt: read, and held against what the model takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread

from perdure.errors import ImageRefused
from perdure.history.content import Image, MediaType
from perdure.images import images_of
from perdure.models.pictures import LIMITS
from perdure.session.workplace import Workplaces


async def image_kinds(workplaces: Workplaces, directory: str, model: str) -> tuple[MediaType, ...]:
    """Return the kinds of images that `provider/model` takes; empty where it takes none.

    That is what is known and configured at a directory. Raises UnknownProvider, UnknownModel,
    ConfigurationError and DirectoryNotFound.
    """
    models = (await workplaces.at(directory)).models
    profile = models.profile(model)
    return LIMITS[models.providers[profile.provider].protocol].kinds if profile.images else ()


async def attached(
    workplaces: Workplaces, directory: str, model: str, given: Sequence[Image | str | Path]
) -> tuple[Image, ...]:
    """Return images, those given by path read; paths are relative to `directory`.

    Raises ImageRefused where one cannot be taken, and where the model takes none.
    """
    kinds = await image_kinds(workplaces, directory, model)
    if not kinds:
        raise ImageRefused(refusal(model))
    found = await anyio.to_thread.run_sync(images_of, given, Path(directory))
    for image in found:
        require_kind(image, kinds, model)
    return found


def require_kind(image: Image, kinds: Sequence[MediaType], model: str) -> None:
    """Raise ImageRefused where `provider/model` takes images, but not of this kind."""
    if image.media_type not in kinds:
        name = image.name or "an image"
        raise ImageRefused(f"{name} is {image.media_type}, which {model} does not take; convert it")


def refusal(model: str) -> str:
    """Return the words for a model that takes no images."""
    provider, _, name = model.partition("/")
    return (
        f"the model {model} takes no images; choose one that does, or, if it does, set "
        f'images = true in [providers.{provider}.models."{name}"] of the configuration'
    )
