"""Image files: which they are, whether they are whole, and where a prompt names one.

A picture that a provider refuses stays in the history and makes every later request fail. So all
that can be seen without decoding it is looked at before it is taken.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

import msgspec

from perdure.config.location import shown
from perdure.errors import ImageRefused
from perdure.history.content import Image, MediaType

LARGEST = 3_932_160
"""Bytes of one image: as base64 they are 5 MiB, the most that every vendor takes."""

LONGEST_SIDE = 8_000
"""Pixels in one direction: the most that every vendor takes."""

MOST = 20
"""Images of one prompt or result; with more, vendors take only small ones."""

LARGEST_SUM = 12_582_912
"""Bytes of them together: a request that holds nothing else is taken by every vendor."""

SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
"""How the name of an image ends, where a prompt names one."""

_LONGEST_NAME = 255
_EMPTY = "it has no picture in it"
_HEADER = 13
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
_NAMED = re.compile(
    r"""(?<!\S)[(\[]?(?P<at>@?)(?:"(?P<double>[^"\n]+)"|'(?P<single>[^'\n]+)'|(?P<bare>(?:\\.|\S)+))"""
)


def kind_of(start: bytes) -> MediaType | None:
    """Return what kind of image begins with these bytes, at least twelve; None for none."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if start.startswith(b"RIFF") and start[8:12] == b"WEBP" else None


def make_image(data: bytes, name: str) -> Image:
    """Return the image that a file's bytes are; `name` is for people, and becomes one short line.

    Raises ImageRefused, with the reason, for what is no PNG, JPEG, GIF or WebP, is not whole, or
    is larger than providers take.
    """
    name = shown(name)[:_LONGEST_NAME]
    kind = kind_of(data)
    if kind is None:
        raise ImageRefused(f"{name} is no image that a model takes (PNG, JPEG, GIF or WebP)")
    if len(data) > LARGEST:
        raise ImageRefused(f"{name} has {len(data)} bytes; {LARGEST} are the most: make it smaller")
    try:
        width, height = _MEASURES[kind](data)
    except IndexError:
        raise ImageRefused(f"{name} is a broken image: it is cut off") from None
    except ValueError as error:
        raise ImageRefused(f"{name} is a broken image: {error}") from None
    if not (0 < width <= LONGEST_SIDE and 0 < height <= LONGEST_SIDE):
        raise ImageRefused(
            f"{name} has {width} x {height} pixels; from 1 to {LONGEST_SIDE} are taken each way"
        )
    return Image(kind, data, width, height, name)


def read_image(path: Path) -> Image:
    """Read an image from a regular file; raise ImageRefused, with the path and the reason."""
    try:
        data = _read(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "its name is no path"
        raise ImageRefused(f"{shown(path)} cannot be read: {reason}") from None
    if data is None:
        raise ImageRefused(f"{shown(path)} is no regular file")
    return make_image(data, path.name)


def _read(path: Path) -> bytes | None:
    """Return the bytes of a regular file, up to one more than are taken; None for another one."""
    # Looked at first, since merely opening a FIFO or a device may do something.
    if not stat.S_ISREG(path.stat().st_mode):
        return None
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(LARGEST + 1)
    finally:
        os.close(descriptor)


_Given = TypeVar("_Given", bound=Image | str | Path)


def listed(given: Iterable[_Given]) -> tuple[_Given, ...]:
    """Return what was given as images; ImageRefused for too many, and for one that is no list."""
    if isinstance(given, str | Path | Image):
        raise ImageRefused("images must come as a list, also where there is only one")
    found = tuple(islice(given, MOST + 1))
    if len(found) > MOST:
        raise ImageRefused(f"there are too many images; {MOST} are the most at a time")
    return found


def images_of(given: Iterable[Image | str | Path], directory: Path) -> tuple[Image, ...]:
    """Return images, looked at again, and those given by path; `directory` is where paths begin.

    Raises ImageRefused for one that cannot be taken, for too many, and for what is no image.
    """
    found: list[Image] = []
    for each in listed(given):
        found.append(_image_of(each, directory))
        require_room(found)
    return tuple(found)


def require_room(images: Sequence[Image]) -> None:
    """Raise ImageRefused where images are too large together."""
    if sum(len(image.data) for image in images) > LARGEST_SUM:
        raise ImageRefused(f"the images have more than {LARGEST_SUM} bytes; send fewer")


def _image_of(given: object, directory: Path) -> Image:
    match given:
        case Image(data=bytes() as data, name=str() as name):
            return make_image(data, name)
        case str() | Path():
            path = os.path.expanduser(given)  # noqa: PTH111 - as in `_paths`
            return read_image(directory / path)
        case _:
            kind = type(given).__name__
            raise ImageRefused(f"an image must be an Image, a str or a Path, not {kind}")


class Named(msgspec.Struct, frozen=True):
    """An image file that a text names; `asked` where it does so with an @ before it."""

    path: Path
    asked: bool


def named_in(text: str, directory: Path) -> list[Named]:
    """Return the image files that a text names, in order, each once.

    With an @, any path that ends like an image counts; without, only one that is there. Paths may
    stand in quotes or be `file:` addresses, and are relative to `directory`.
    """
    found: dict[Path, Named] = {}
    for match in _NAMED.finditer(text):
        asked = bool(match["at"])
        for path in _paths(match["double"] or match["single"], match["bare"]):
            whole = directory / path
            if asked or _is_file(whole):
                before = found.get(whole)
                found[whole] = Named(whole, asked or (before is not None and before.asked))
    return list(found.values())


def _paths(quoted: str | None, bare: str | None) -> Iterator[Path]:
    """Yield the path that a word may be, if it ends like an image."""
    word = quoted or re.sub(r"\\(.)", r"\1", (bare or "").rstrip(".,;:!?)]"))
    if word.startswith("file://"):
        word = unquote(word.removeprefix("file://"))
    if word.lower().endswith(SUFFIXES) and "\0" not in word:
        yield Path(os.path.expanduser(word))  # noqa: PTH111 - Path raises where there is no home


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def _png(data: bytes) -> tuple[int, int]:
    at, size, pixels = 8, None, False
    while True:
        length, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        end = at + 8 + length
        if end + 4 > len(data):
            raise ValueError("it is cut off")
        if zlib.crc32(data[at + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise ValueError("a checksum does not fit")
        if (kind == b"IHDR") != (size is None) or (size is None and length != _HEADER):
            raise ValueError("it does not begin with one header")
        if size is None:
            size = _large(data, at + 8), _large(data, at + 12)
        pixels = pixels or (kind == b"IDAT" and length > 0)
        if kind == b"IEND":
            break
        at = end + 4
    if not pixels:
        raise ValueError(_EMPTY)
    return size


def _jpeg(data: bytes) -> tuple[int, int]:
    at, size = 2, (0, 0)
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF or marker in _BARE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in _FRAMES:
            size = _big(data, at + 7), _big(data, at + 5)
        if marker == 0xDA:
            if data.rfind(b"\xff\xd9") < at:
                raise ValueError("it is cut off")
            return size
        at += 2 + _big(data, at + 2)
    raise ValueError(_EMPTY)


def _gif(data: bytes) -> tuple[int, int]:
    if not data.rstrip(b"\0").endswith(b";"):
        raise ValueError("it is cut off")
    size, flags = (_little(data, 6, 2), _little(data, 8, 2)), data[10]
    at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
    while data[at] == 0x21:  # an extension; a row of pieces follows its kind
        at += 2
        while length := data[at]:
            at += 1 + length
        at += 1
    if data[at] != 0x2C:
        raise ValueError(_EMPTY)
    return size


def _webp(data: bytes) -> tuple[int, int]:
    if _little(data, 4, 4) + 8 > len(data):
        raise ValueError("it is cut off")
    match data[12:16]:
        case b"VP8 " if data[23:26] == b"\x9d\x01\x2a":
            return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
        case b"VP8L" if data[20] == 0x2F:
            bits = _little(data, 21, 4)
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8X" if _holds_a_picture(data):
            return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
        case _:
            raise ValueError(_EMPTY)


def _holds_a_picture(data: bytes) -> bool:
    """Say whether one of the chunks of an extended WebP is a picture or a frame."""
    at = 12
    while at + 8 <= len(data):
        if data[at : at + 4] in {b"VP8 ", b"VP8L", b"ANMF"}:
            return True
        length = _little(data, at + 4, 4)
        at += 8 + length + length % 2
    return False


def _large(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "big")


def _big(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _little(data: bytes, at: int, count: int) -> int:
    return sum(data[at + place] << 8 * place for place in range(count))


_MEASURES: dict[MediaType, Callable[[bytes], tuple[int, int]]] = {
    "image/png": _png,
    "image/jpeg": _jpeg,
    "image/gif": _gif,
    "image/webp": _webp,
}
"""By kind: what finds out width and height; raises IndexError or ValueError for a broken file."""
