"""Pictures on the wire, and the words that stand for them where a model takes none."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable

from perdure.history.content import Image
from perdure.history.items import ResultItem

_TILE = 750
"""Pixels for which providers count about one token."""

_MOST_TOKENS = 5_000
"""More than the largest picture takes: providers make it smaller before the model sees it."""


def base64(image: Image) -> str:
    """Return a picture's bytes as the text in which JSON carries them."""
    return b64encode(image.data).decode("ascii")


def data_url(image: Image) -> str:
    """Return a picture as an address that holds it."""
    return f"data:{image.media_type};base64,{base64(image)}"


def tokens_of_image(image: Image) -> int:
    """Return about how many tokens a picture takes, from its pixels alone."""
    return min(max(image.width * image.height // _TILE, 1), _MOST_TOKENS)


def left_out(images: Iterable[Image]) -> str:
    """Return the words that stand for pictures where the model takes none."""
    return "\n".join(
        f"[{image.described}: left out, since this model takes no images]" for image in images
    )


def heading(item: ResultItem) -> str:
    """Return the words before the pictures of a result that could not hold them itself."""
    count = len(item.images)
    what = "The image" if count == 1 else f"The {count} images"
    return f"{what} that the call of {item.name} returned:"
