"""What a picture is: read from the bytes here, by nobody who wrote them."""

from __future__ import annotations

import binascii
from typing import Any

_STARTS = {
    "image/png": (b"\x89PNG\r\n\x1a\n",),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/webp": (b"RIFF",),
}


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
