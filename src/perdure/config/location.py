"""Where a session works, and the project around it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from perdure.errors import DirectoryNotFound, UsageError

_MARKS = (".git", ".hg", ".jj")


class Location(msgspec.Struct, frozen=True):
    """The directory a session works in, with its project root.

    Both are absolute, resolved, and valid Unicode. `vcs` is `git`, `hg`, `jj`, or empty where no
    version control was found and the project root is the directory itself.
    """

    directory: Path
    project: Path
    vcs: str = ""

    def between(self) -> tuple[Path, ...]:
        """Return the directories from the project root down to the Location, both included."""
        return span(self.project, self.directory)


def find_project(directory: str | Path) -> Location:
    """Find the Location of an existing directory; raise DirectoryNotFound where there is none.

    The project root is the nearest directory upward that holds `.git`, `.hg` or `.jj` (a file
    `.git`, as worktrees and submodules have it, counts), else the directory itself.
    """
    resolved = _resolve(directory)
    for candidate in (resolved, *resolved.parents):
        for mark in _MARKS:
            if _exists(candidate / mark):
                return Location(resolved, candidate, mark.removeprefix("."))
    return Location(resolved, resolved)


def span(top: Path, bottom: Path) -> tuple[Path, ...]:
    """Return the directories from `top` down to `bottom`; none where `bottom` is not below it."""
    if not bottom.is_relative_to(top):
        return ()
    below = [bottom, *bottom.parents]
    return tuple(reversed(below[: below.index(top) + 1]))


def shown(path: str | Path) -> str:
    """Return a path as one printable line: what would not print is written as an escape."""
    text = str(path)
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a directory that may not be entered is not known to be a project root
        return False


def _resolve(directory: str | Path) -> Path:
    try:
        given = str(os.fspath(directory))
    except TypeError:
        kind = type(directory).__name__
        raise UsageError(f"a directory must be a str or a Path, not {kind}") from None
    name = shown(given)
    try:
        resolved = Path(os.path.realpath(given, strict=True))
        if not resolved.is_dir():
            raise DirectoryNotFound(f"{name} is not a directory")
        str(resolved).encode()
    except UnicodeEncodeError as error:
        raise DirectoryNotFound(f"the name of {name} is not valid UTF-8; rename it") from error
    except OSError as error:
        reason = error.strerror or "it cannot be examined"
        raise DirectoryNotFound(f"{name} is no directory to work in: {reason}") from error
    except ValueError as error:  # a NUL in the name
        raise DirectoryNotFound(f"{name} cannot be the name of a directory") from error
    return resolved
