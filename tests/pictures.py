"""Small image files that are whole: what a decoder would take, made by hand."""

from __future__ import annotations

import zlib


def png(width: int = 3, height: int = 2, *, padding: int = 0) -> bytes:
    """Return a black PNG; `padding` are further bytes in it that mean nothing."""
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\0\0\0\0"
    pixels = zlib.compress((b"\0" * (width + 1)) * height)
    more = [(b"prVt", bytes(padding))] if padding else []
    chunks = [(b"IHDR", header), *more, (b"IDAT", pixels), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, body) for kind, body in chunks)


def _chunk(kind: bytes, body: bytes) -> bytes:
    check = zlib.crc32(kind + body).to_bytes(4, "big")
    return len(body).to_bytes(4, "big") + kind + body + check


def jpeg(width: int = 3, height: int = 2) -> bytes:
    """Return a JPEG as its structure goes, with an empty scan."""
    size = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    app = b"\xff\xe0\x00\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0"
    frame = b"\xff\xc0\x00\x0b\x08" + size + b"\x01\x01\x11\x00"
    scan = b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + b"\0\0"
    return b"\xff\xd8" + app + frame + scan + b"\xff\xd9"


def gif(width: int = 3, height: int = 2) -> bytes:
    """Return a GIF of one black frame."""
    size = width.to_bytes(2, "little") + height.to_bytes(2, "little")
    colours = b"\x80\0\0" + b"\0\0\0\xff\xff\xff"
    frame = b",\0\0\0\0" + size + b"\0" + b"\x02\x02\x44\x01\0"
    return b"GIF89a" + size + colours + frame + b";"


def webp(width: int = 3, height: int = 2) -> bytes:
    """Return a lossless WebP as its container goes."""
    bits = (width - 1) | (height - 1) << 14
    body = b"\x2f" + bits.to_bytes(4, "little") + b"\0\0\0"
    chunk = b"VP8L" + len(body).to_bytes(4, "little") + body
    return b"RIFF" + (len(chunk) + 4).to_bytes(4, "little") + b"WEBP" + chunk
