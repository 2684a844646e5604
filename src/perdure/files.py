"""Files that others wrote: where they really are, how they are read, how their text is shown.

Whatever lies on a disk may be a link, a FIFO or half written, and may change at any moment. Paths
are resolved and judged first. What is opened then is walked to from a root that passed, one name
at a time and through no link, so that what is put in between leads nowhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec

from perdure.config.location import shown

T = TypeVar("T")

_TRIES = 3
# Search permission is enough to pass through a directory where the system can express that.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


class Trouble(msgspec.Struct, frozen=True):
    """Why something at a path is not used as it is, on one line."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{shown(self.path)}: {self.reason}"


def judge(
    path: Path, root: Path | None, *, directory: bool = False, bounds: str = "the project"
) -> tuple[str, Path]:
    """Return why what is at a path must not be used, empty where it may, and its canonical path.

    It may be used where it is a regular file, or a directory if one is wanted, does not lead out
    of `root`, which is what `bounds` names, and both paths are Unicode. Raise OSError where that
    cannot be told.
    """
    mode = path.stat().st_mode
    canonical = Path(os.path.realpath(path, strict=True))
    if directory and not stat.S_ISDIR(mode):
        return "it is no directory", canonical
    if not directory and not stat.S_ISREG(mode):
        return "it is no regular file", canonical
    if root is not None and not canonical.is_relative_to(root):
        return f"it leads out of {bounds}, to {shown(canonical)}", canonical
    if not _is_unicode(path) or not _is_unicode(canonical):
        return "its path is not valid UTF-8", canonical
    return "", canonical


def is_gone(path: Path) -> bool:
    """Say whether it is certain that nothing is at a path."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


@contextmanager
def directory(root: Path, names: Sequence[str], *, create: bool = False) -> Generator[int]:
    """Walk from a root down the names, through no link, and hold the last directory open.

    The value is a file descriptor for `dir_fd` arguments. `create` makes what is missing.
    Raise OSError where a name is missing, a link or no directory.
    """
    held = os.open(root, _PASS)
    try:
        for name in names:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=held)
            below = _enter(name, held)
            os.close(held)
            held = below
        yield held
    finally:
        os.close(held)


def names_in(held: int, longest: int) -> list[str]:
    """Return at most so many names from a directory that is held open."""
    # What was opened only to pass through cannot be read itself.
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=held)
    try:
        with os.scandir(readable) as entries:
            return [entry.name for entry in islice(entries, longest)]
    finally:
        os.close(readable)


def read_below(root: Path, path: Path, read: Callable[[int], T]) -> T:
    """Return what `read` makes of the descriptor of a regular file that holds still meanwhile.

    The path is canonical and below `root`. `read` begins anew where the file has changed under it.
    Raise OSError where the file is gone or has become something else, and after three tries.
    """
    *above, name = path.relative_to(root).parts
    with directory(root, above) as held:
        descriptor = os.open(name, _READ, dir_fd=held)
    try:
        return _settled(descriptor, path, read)
    finally:
        os.close(descriptor)


def as_text(raw: bytes) -> tuple[str, bool]:
    """Return UTF-8 as text, with U+FFFD for what is none, and whether there was any such."""
    try:
        text, damaged = raw.decode("utf-8-sig"), b"\0" in raw
    except UnicodeDecodeError:
        text, damaged = raw.decode("utf-8-sig", errors="replace"), True
    return text.replace("\0", "\ufffd"), damaged


def without_broken_end(head: bytes) -> bytes:
    """Drop the first bytes of a character that a limit cut in two."""
    for length in range(1, min(4, len(head)) + 1):
        byte = head[-length]
        if byte & 0xC0 != 0x80:  # the character begins here
            needed = 1 + (byte >= 0xC0) + (byte >= 0xE0) + (byte >= 0xF0)
            return head[:-length] if needed > length else head
    return head


def enclosed(text: str, word: str, digest: str) -> str:
    """Put a text between tags whose name holds a part of the text's own digest.

    Nobody can write a text that holds its own digest, so none can pretend to end early.
    """
    tag = f"{word}-{digest[:16]}"
    end = "" if text.endswith("\n") else "\n"
    return f"<{tag}>\n{text}{end}</{tag}>"


def _is_unicode(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _enter(name: str, held: int) -> int:
    try:
        return os.open(name, _PASS, dir_fd=held)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=held, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from None
        raise


def _settled(descriptor: int, path: Path, read: Callable[[int], T]) -> T:
    for _ in range(_TRIES):
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file any more", str(path))
        content = read(descriptor)
        after = os.fstat(descriptor)
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
            return content
        os.lseek(descriptor, 0, os.SEEK_SET)
    raise OSError(errno.EAGAIN, "it keeps changing while it is read", str(path))
