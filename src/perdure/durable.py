"""Files that are on the disk when the call returns."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
"""How a new file is opened, so that nothing is written through a link or over another one."""


def write_whole(target: Path, blocks: Iterable[bytes]) -> None:
    """Write a file, readable by its owner only, in the place of what is there; raise OSError.

    It gets its name when all of it is durable; where that fails, what was there stays.
    """
    beside = target.with_name(f".{target.name[:40]}.{secrets.token_hex(6)}.part")
    try:
        with os.fdopen(os.open(beside, CREATE, 0o600), "wb") as file:
            for block in blocks:
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(target)
    except BaseException:
        with suppress(OSError):
            beside.unlink()
        raise
    sync_directory(target.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, as far as its file system can."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
