"""Which instruction files there are: names and paths only, nothing is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

import msgspec

from perdure.config.location import shown


class Found(msgspec.Struct, frozen=True):
    """An instruction file. `path` is canonical; `governs` is None for the global file."""

    path: Path
    governs: Path | None = None


class Trouble(msgspec.Struct, frozen=True):
    """Why a file in the place of an instruction file is not used, on one line."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{shown(self.path)}: {self.reason}"


class Place(msgspec.Struct, frozen=True):
    """What one directory holds.

    `file` is the canonical path of its instruction file, `found_at` the path before a link in its
    place was followed. `blocked` says why it could not be told.
    """

    file: Path | None = None
    found_at: Path | None = None
    refused: tuple[Trouble, ...] = ()
    blocked: Trouble | None = None


def examine(directory: Path, names: Iterable[str], root: Path | None = None) -> Place:
    """Look for the first of `names` that is a regular file, by its canonical path.

    Anything else under such a name is refused, and so is a link that leads out of `root`; then the
    next name is tried. What cannot be examined blocks the directory, since a file that was told
    may still be there.
    """
    refused: list[Trouble] = []
    for name in names:
        path = directory / name
        try:
            reason, canonical = _judge(path, root)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            blocked = Trouble(path, f"it cannot be examined: {error.strerror}")
            return Place(refused=tuple(refused), blocked=blocked)
        if not reason:
            return Place(canonical, path, tuple(refused))
        refused.append(Trouble(path, f"refused, because {reason}"))
    return Place(refused=tuple(refused))


def is_gone(path: Path) -> bool:
    """Say whether it is certain that nothing is at a path."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _judge(path: Path, root: Path | None) -> tuple[str, Path]:
    mode = path.stat().st_mode
    canonical = Path(os.path.realpath(path, strict=True))
    if not stat.S_ISREG(mode):
        return "it is no regular file", canonical
    if root is not None and not canonical.is_relative_to(root):
        return f"it leads out of the project, to {shown(canonical)}", canonical
    if not _is_unicode(canonical):
        return "its path is not valid UTF-8", canonical
    return "", canonical


def _is_unicode(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
