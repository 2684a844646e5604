"""Reading one instruction file: whole, once, and never outside of where it may lie."""

from __future__ import annotations

import errno
import hashlib
import os
from functools import partial
from pathlib import Path

import msgspec

from perdure.files import as_text, read_below, without_broken_end

LIMIT = 64 * 1024
"""How many bytes of a file the model is shown."""

LARGEST = 64 * 1024 * 1024
"""The largest file that is read to its end, in bytes; it bounds the time that a boundary takes."""

_CHUNK = 1024 * 1024


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
    content = read_below(root, path, partial(_whole, path))
    cut = content.size > LIMIT
    text, damaged = as_text(without_broken_end(content.head) if cut else content.head)
    return InstructionFile(
        path=str(path),
        governs="" if governs is None else str(governs),
        digest=content.digest,
        size=content.size,
        text=text,
        cut=cut,
        damaged=damaged,
    )


def _whole(path: Path, descriptor: int) -> _Content:
    digest, head, size = hashlib.sha256(), bytearray(), 0
    while chunk := os.read(descriptor, _CHUNK):
        digest.update(chunk)
        head += chunk[: LIMIT - len(head)]
        size += len(chunk)
        if size > LARGEST:
            raise OSError(errno.EFBIG, "it is larger than 64 MiB", str(path))
    return _Content(bytes(head), digest.hexdigest(), size)
