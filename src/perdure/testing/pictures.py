"""What providers refuse in a picture: read from the bytes here, by nobody who wrote them."""

from __future__ import annotations

import binascii
import re
from typing import Any

from perdure.testing.openai_refusals import rejection, wrong_type
from perdure.testing.wire import Rejection

TEXT_MODELS = re.compile(r"(o1-mini|o3-mini|gpt-3\.5-.*)")
"""OpenAI's models that take no pictures."""

_STARTS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}
_DATA_URL = re.compile(r"data:(image/[a-z]+);base64,([A-Za-z0-9+/]+={0,2})")


def decoded(text: Any) -> bytes | None:
    """Return what a text in base64 says; None where it is none, or empty."""
    try:
        return binascii.a2b_base64(text, strict_mode=True) or None
    except (TypeError, ValueError):
        return None


def kind_of(data: bytes) -> str:
    """Return the media type of a picture that begins like these bytes, or nothing."""
    kinds = (kind for kind, starts in _STARTS.items() if data.startswith(starts))
    return next(kinds, "")


def pixels(data: bytes) -> tuple[int, int]:
    """Return width and height of a PNG or GIF, and nothing of the others."""
    if data.startswith(b"\x89PNG"):
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if data.startswith(b"GIF"):
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    return 0, 0


def check_data_url(url: Any, model: str, at: str) -> None:
    """Refuse an address that holds no picture which OpenAI takes; others are not looked at."""
    if TEXT_MODELS.fullmatch(model):
        words = "Invalid content type. image_url is only supported by certain models."
        raise rejection(words, at, "invalid_value")
    if not isinstance(url, str):
        raise wrong_type(at, "a string", url)
    if url.startswith(("http://", "https://")):
        return
    found = _DATA_URL.fullmatch(url)
    data = decoded(found[2]) if found else None
    if data is None:
        raise rejection(
            f"Invalid '{at}'. Expected a base64-encoded data URL with an image MIME type (e.g. "
            "'data:image/png;base64,aW1nIGJ5dGVzIGhlcmU='), but got a value without one.",
            at,
            "invalid_value",
        )
    if not kind_of(data):
        raise unsupported()


def unsupported() -> Rejection:
    """Return the refusal of bytes that are no picture."""
    return Rejection(
        400,
        "You uploaded an unsupported image. Please make sure your image has of one the following "
        "formats: ['png', 'jpeg', 'gif', 'webp'].",
        code="invalid_image_format",
    )
