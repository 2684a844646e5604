"""Keep the paths that a model gives inside what the session may touch.

A path is resolved first, links included, and checked then. What is opened later is walked to from
the root that passed the check, one name at a time and through no link, so that a link put in place
in between leads nowhere.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from perdure.errors import ToolError
from perdure.tools.base import ToolContext
from perdure.tools.printable import printable, shortened

OUTPUTS = "-outputs"
"""How the directory ends that holds one directory of stored outputs for each session."""

_LONGEST_NAME = 255
_LONGEST_PATH = 4096
_REASONS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "does not exist: a part of the path is a file, not a directory",
    errno.ELOOP: "is, or goes through, a link that leads round in a loop or changed just now",
    errno.ENAMETOOLONG: "is too long for a path",
    errno.EACCES: "cannot be opened: permission denied",
    errno.EPERM: "cannot be opened: not permitted",
    errno.EISDIR: "is a directory",
    errno.ENOSPC: "was not written: the disk is full",
    errno.EDQUOT: "was not written: the disk quota is used up",
    errno.EROFS: "was not written: the file system is read-only",
}


class Place(msgspec.Struct, frozen=True):
    """A path that passed the check.

    `root` is the opened directory that holds it and `path` the target; both are absolute with every
    link resolved. `shown` is how messages name it: relative to the Location where it is inside the
    project.
    """

    root: Path
    path: Path
    shown: str

    @property
    def parents(self) -> tuple[str, ...]:
        """The names of the directories between the root and the target."""
        return self.path.relative_to(self.root).parts[:-1]

    @property
    def name(self) -> str:
        """The target's own name, `.` for the root itself."""
        return "." if self.path == self.root else self.path.name


def confine(given: str, context: ToolContext, *, write: bool = False) -> Place:
    """Return the place that a model means, relative to the Location.

    To read, the path of an output that another session or machine kept leads to this session's own
    copy, where it has one. Raise ToolError for a path that is no path, or leads outside the
    project, the session's outputs (which can only be read) and the further directories that the
    configuration opens.
    """
    _require_a_path(given)
    _refuse_a_home(given, context)
    path = Path(os.path.realpath(context.directory / given))
    name = shown(path, context)
    outputs = Path(os.path.realpath(context.outputs))
    if write and path.is_relative_to(outputs):
        raise ToolError(f"{name} is a stored tool output; it can be read but not written")
    opened = [context.project, *(Path(os.path.realpath(extra)) for extra in context.allowed)]
    if not write and (copy := _own_copy(given, path, context.directory, [*opened, outputs])):
        return Place(outputs, copy, shown(copy, context))
    for root in opened if write else [*opened, outputs]:
        if path.is_relative_to(root):
            return Place(root, path, name)
    raise ToolError(_refusal(given, path, context))


def shown(path: Path, context: ToolContext) -> str:
    """Return how a resolved path is named to the model, and can be given back by it."""
    if path.is_relative_to(context.project):
        return printable(os.path.relpath(path, context.directory))
    return printable(str(path))


@contextmanager
def explained(name: str) -> Generator[None]:
    """Turn what the operating system refuses into a ToolError about the file of that name."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0)
        raise ToolError(f"{name} {reason or f'cannot be used: {error.strerror}'}") from error


def _require_a_path(given: str) -> None:
    name = shortened(printable(given), 200)
    if not given:
        raise ToolError("the path is empty; give one relative to the working directory")
    if "\0" in given:
        raise ToolError(f"{name} is no path: it holds a NUL character")
    try:
        encoded = os.fsencode(given)
    except UnicodeEncodeError as error:
        raise ToolError(f"{name} is no path: it cannot be encoded") from error
    longest = max(len(part) for part in encoded.split(b"/"))
    if longest > _LONGEST_NAME or len(encoded) > _LONGEST_PATH:
        raise ToolError(f"{name} is too long for a path")


def _own_copy(given: str, path: Path, directory: Path, opened: list[Path]) -> Path | None:
    """Return this session's copy of a stored output whose path names another place.

    The texts of a forked or imported history keep the paths at which their outputs were stored.
    What is there and may be read goes before.
    """
    *_, outputs = opened
    named = Path(os.path.normpath(directory / given))
    copy = outputs / named.name
    if not named.parent.parent.name.endswith(OUTPUTS) or path.is_relative_to(outputs):
        return None
    literal = any(path.is_relative_to(root) for root in opened) and os.path.lexists(path)
    return copy if not literal and os.path.lexists(copy) else None


def _refuse_a_home(given: str, context: ToolContext) -> None:
    # Taken as it is, `~/notes` would make a directory named `~` in the project.
    if given.partition("/")[0] == "~" and not os.path.lexists(context.directory / "~"):
        raise ToolError(f"`~` is not expanded; give a path relative to {context.directory}")


def _refusal(given: str, path: Path, context: ToolContext) -> str:
    leads = "is" if os.path.normpath(context.directory / given) == str(path) else "leads"
    opened = ", ".join(str(root) for root in (context.project, *context.allowed))
    return f"{printable(given)} {leads} outside of the directories that are open here ({opened})"
