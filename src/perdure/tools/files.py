"""Open and replace single files of a session, safely."""

from __future__ import annotations

import codecs
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from weakref import WeakValueDictionary

import anyio

from perdure.errors import ToolError
from perdure.files import directory
from perdure.images import kind_of
from perdure.tools.confine import Place, explained

_SAMPLE = 8192
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ENCODINGS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SPECIAL = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a link that was put there just now"),
)


class PathLocks:
    """One lock per path, for the tools of one set: two edits of a file never lose one of them."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Path, anyio.Lock] = WeakValueDictionary()

    def of(self, path: Path) -> anyio.Lock:
        """Return the lock of a resolved path; it lives as long as somebody holds it."""
        return self._locks.setdefault(path, anyio.Lock())


def open_file(place: Place) -> BinaryIO:
    """Open a regular file for reading.

    Raise ToolError for anything else: a directory, or a FIFO, device or socket, which is not even
    opened. Raise FileNotFoundError where nothing is there.
    """
    with directory(place.root, place.parents) as held:
        _require_a_file(os.stat(place.name, dir_fd=held, follow_symlinks=False), place)
        file = os.fdopen(os.open(place.name, _READ, dir_fd=held), "rb")
    try:
        _require_a_file(os.fstat(file.fileno()), place)
    except BaseException:
        file.close()
        raise
    return file


def exists(place: Place) -> bool:
    """Tell whether anything is there; raise ToolError where that cannot be seen."""
    with explained(place.shown):
        try:
            with directory(place.root, place.parents) as held:
                os.stat(place.name, dir_fd=held, follow_symlinks=False)
        except FileNotFoundError:
            return False
    return True


def remove_file(place: Place) -> None:
    """Delete a regular file; it is gone durably on return. Raise ToolError where it cannot be."""
    with explained(place.shown), directory(place.root, place.parents) as held:
        _require_a_file(os.stat(place.name, dir_fd=held, follow_symlinks=False), place)
        os.unlink(place.name, dir_fd=held)
        _make_durable(held)


def is_directory(place: Place) -> bool:
    """Tell whether a directory or a regular file is there; raise ToolError for anything else."""
    with explained(place.shown), directory(place.root, place.parents) as held:
        status = os.stat(place.name, dir_fd=held, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        return True
    _require_a_file(status, place)
    return False


def require_a_directory(place: Place) -> None:
    """Raise ToolError where no directory is there."""
    if not is_directory(place):
        raise ToolError(f"{place.shown} is a file, not a directory; use the tool read to see it")


def text_encoding(file: BinaryIO, place: Place) -> str:
    """Return the encoding of a text file that is at its start, and leave it there.

    Raise ToolError with the reason for an image or other binary content.
    """
    sample = file.read(_SAMPLE)
    file.seek(0)
    if kind := kind_of(sample):
        raise ToolError(f"{place.shown} is an image ({kind}); this tool works on text")
    for mark, encoding in _ENCODINGS:
        if sample.startswith(mark):
            return encoding
    if b"\0" in sample:
        raise ToolError(f"{place.shown} is a binary file (it holds NUL bytes), not text")
    if _undecodable(sample) > len(sample) * 0.3:
        raise ToolError(f"{place.shown} is a binary file (most of it is no UTF-8), not text")
    return "utf-8"


def replace_file(place: Place, data: bytes) -> bool:
    """Write a whole file so that a reader finds the old or the new content, never a part.

    Make missing parent directories. Keep the mode of an existing file. Return whether the file is
    new. It is durable on return. Raise ToolError where it cannot be written; nothing changed then.
    """
    with explained(place.shown), directory(place.root, place.parents, create=True) as held:
        mode = _mode_to_keep(held, place)
        temporary = f".perdure-{secrets.token_hex(8)}.tmp"
        descriptor = os.open(temporary, _CREATE, 0o666, dir_fd=held)
        try:
            _fill(descriptor, data, mode)
            os.replace(temporary, place.name, src_dir_fd=held, dst_dir_fd=held)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=held)
            raise
        _make_durable(held)
    return mode is None


def _mode_to_keep(held: int, place: Place) -> int | None:
    try:
        there = os.stat(place.name, dir_fd=held, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _require_a_file(there, place)
    if not os.access(place.name, os.W_OK, dir_fd=held):
        raise ToolError(f"{place.shown} is read-only; it was not changed")
    return stat.S_IMODE(there.st_mode)


def _fill(descriptor: int, data: bytes, mode: int | None) -> None:
    with os.fdopen(descriptor, "wb") as file:
        if mode is not None:
            os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _make_durable(held: int) -> None:
    # Some file systems refuse to sync a directory; the file itself is synced already.
    with suppress(OSError):
        descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=held)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _require_a_file(status: os.stat_result, place: Place) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise ToolError(f"{place.shown} is a directory; use the tool list to see what it holds")
    kinds = [name for is_kind, name in _SPECIAL if is_kind(status.st_mode)]
    raise ToolError(f"{place.shown} is {kinds[0] if kinds else 'special'}, not a regular file")


def _undecodable(sample: bytes) -> int:
    # A character cut by the end of the sample is no fault of the file.
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    return sum("\udc80" <= c <= "\udcff" for c in decoder.decode(sample))
