"""Reading one instruction file: whole, once, and never outside of where it may lie."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path

import msgspec

LIMIT = 64 * 1024
"""How many bytes of a file the model is shown."""

LARGEST = 64 * 1024 * 1024
"""The largest file that is read to its end, in bytes; it bounds the time that a boundary takes."""

_CHUNK = 1024 * 1024
_TRIES = 3
# Search permission is enough to pass through a directory where the system can express that.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class InstructionFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an instruction file says.

    `path` is canonical; `governs` is the directory it is about, empty for every project. `digest`
    and `size` (bytes) are of the whole file. `text` is its beginning where `cut`, and shows
    U+FFFD for what is no text where `damaged`.
    """

    path: str
    governs: str
    digest: str
    size: int
    text: str
    cut: bool = False
    damaged: bool = False


class _Content(msgspec.Struct, frozen=True):
    head: bytes
    digest: str
    size: int


def load_file(path: Path, root: Path, governs: Path | None) -> InstructionFile:
    """Read a file at a canonical path below `root`, following no link on the way.

    Raises OSError where it cannot be read now: it is gone or has become something else, may not be
    read, is larger than 64 MiB, or keeps changing while it is read.
    """
    descriptor = _open(path, root)
    try:
        content = _settled(descriptor, path)
    finally:
        os.close(descriptor)
    cut = content.size > LIMIT
    text, damaged = _text(_without_broken_end(content.head) if cut else content.head)
    return InstructionFile(
        path=str(path),
        governs="" if governs is None else str(governs),
        digest=content.digest,
        size=content.size,
        text=text,
        cut=cut,
        damaged=damaged,
    )


def _open(path: Path, root: Path) -> int:
    # Step by step from the root, so that a directory which is replaced by a link after discovery
    # cannot lead out of the project.
    *directories, name = path.relative_to(root).parts
    here = os.open(root, _PASS)
    try:
        for directory in directories:
            below = os.open(directory, _PASS, dir_fd=here)
            os.close(here)
            here = below
        return os.open(name, _READ, dir_fd=here)
    finally:
        os.close(here)


def _settled(descriptor: int, path: Path) -> _Content:
    for _ in range(_TRIES):
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file any more", str(path))
        content = _whole(descriptor, path)
        after = os.fstat(descriptor)
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
            return content
        os.lseek(descriptor, 0, os.SEEK_SET)
    raise OSError(errno.EAGAIN, "it keeps changing while it is read", str(path))


def _whole(descriptor: int, path: Path) -> _Content:
    digest, head, size = hashlib.sha256(), bytearray(), 0
    while chunk := os.read(descriptor, _CHUNK):
        digest.update(chunk)
        head += chunk[: LIMIT - len(head)]
        size += len(chunk)
        if size > LARGEST:
            raise OSError(errno.EFBIG, "it is larger than 64 MiB", str(path))
    return _Content(bytes(head), digest.hexdigest(), size)


def _text(raw: bytes) -> tuple[str, bool]:
    try:
        text, damaged = raw.decode("utf-8-sig"), b"\0" in raw
    except UnicodeDecodeError:
        text, damaged = raw.decode("utf-8-sig", errors="replace"), True
    return text.replace("\0", "\ufffd"), damaged


def _without_broken_end(head: bytes) -> bytes:
    """Drop the first bytes of a character that the limit cut in two."""
    for length in range(1, min(4, len(head)) + 1):
        byte = head[-length]
        if byte & 0xC0 != 0x80:  # the character begins here
            needed = 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
            return head[:-length] if needed > length else head
    return head
