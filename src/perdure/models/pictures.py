"""Pictures on the wire: how many fit into a request, and the words for those that do not go out.

Limits as of 2026-12-02, from the vendors' documentation of images. They hold for all pictures of a
request, those of earlier turns included: one too many, and this request and every later one of the
session is refused. So what does not fit any more is named instead.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from copy import copy
from typing import get_args

import msgspec

from perdure.history.content import Image, MediaType
from perdure.history.items import ResultItem

_TILE = 750
"""Pixels for which providers count about one token."""

_MOST_TOKENS = 5_000
"""More than the largest picture takes: providers make it smaller before the model sees it."""


class Limits(msgspec.Struct, frozen=True):
    """What pictures one request can hold.

    `size` is in characters of base64, of all of them together, and leaves room for the rest of the
    body; `most` is their number. With more than `many`, none may be larger than `side` pixels in
    one direction. `kinds` are the media types that are taken.
    """

    size: int
    most: int
    many: int | None = None
    side: int = 2_000
    kinds: tuple[MediaType, ...] = get_args(MediaType)


LIMITS: Mapping[str, Limits] = {
    "anthropic": Limits(size=28_000_000, most=100, many=20),
    "gemini": Limits(size=18_000_000, most=1_000, kinds=("image/png", "image/jpeg", "image/webp")),
    "openai-chat": Limits(size=45_000_000, most=500),
    "openai-responses": Limits(size=45_000_000, most=500),
}
"""By wire protocol. A model of Anthropic's with a window of 200,000 tokens takes the fewest."""


class Room:
    """What a request can still hold of pictures, after those that stand in it already."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._count = 0
        self._size = 0
        self._large = False

    def fork(self) -> Room:
        """Return a copy that takes pictures without taking them from this one."""
        return copy(self)

    def take(self, image: Image) -> str:
        """Give the picture its room; return why there is none for it, empty where there is."""
        limits, size = self._limits, len(image.data) * 4 // 3 + 4
        large = max(image.width, image.height) > limits.side
        if image.media_type not in limits.kinds:
            return "its kind is not taken here"
        if self._count == limits.most or self._size + size > limits.size:
            return FULL
        if limits.many is not None and self._count >= limits.many and (large or self._large):
            return FULL
        self._count += 1
        self._size += size
        self._large = self._large or large
        return ""


FULL = "the request holds as many images as it can"
NONE = "this model takes no images"


def too_many(images: Iterable[Image], limits: Limits) -> bool:
    """Say whether one request cannot hold all of these pictures."""
    room = Room(limits)
    return any(room.take(image) == FULL for image in images)


def base64(image: Image) -> str:
    """Return a picture's bytes as the text in which JSON carries them."""
    return b64encode(image.data).decode("ascii")


def data_url(image: Image) -> str:
    """Return a picture as an address that holds it."""
    return f"data:{image.media_type};base64,{base64(image)}"


def tokens_of_image(image: Image) -> int:
    """Return about how many tokens a picture takes, from its pixels alone."""
    return min(max(image.width * image.height // _TILE, 1), _MOST_TOKENS)


def left_out(image: Image, reason: str) -> str:
    """Return the words that stand for a picture that does not go out."""
    return f"[{image.described}: left out, since {reason}]"


def heading(item: ResultItem) -> str:
    """Return the words before the pictures of a result that could not hold them itself."""
    count = len(item.images)
    what = "The image" if count == 1 else f"The {count} images"
    return f"{what} that the call of {item.name} returned:"
