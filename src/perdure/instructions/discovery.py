"""Which instruction files there are: names and paths only, nothing is read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from perdure.files import Trouble, judge


class Found(msgspec.Struct, frozen=True):
    """An instruction file. `path` is canonical; `governs` is None for the global file."""

    path: Path
    governs: Path | None = None


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
            reason, canonical = judge(path, root)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            blocked = Trouble(path, f"it cannot be examined: {error.strerror}")
            return Place(refused=tuple(refused), blocked=blocked)
        if not reason:
            return Place(canonical, path, tuple(refused))
        refused.append(Trouble(path, f"refused, because {reason}"))
    return Place(refused=tuple(refused))
