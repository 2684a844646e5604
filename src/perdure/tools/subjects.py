"""What calls of the built-in tools are about, for permission rules."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from perdure.tools.base import Subject, ToolContext


class _WithPath(Protocol):
    @property
    def path(self) -> str | None: ...


def path_subject(arguments: _WithPath, context: ToolContext) -> Subject:
    """Return the path that a call names, with all links resolved; reads the file system."""
    return Subject((place_of(arguments.path or ".", context),))


def text_subject(member: str) -> Callable[[object, ToolContext], Subject]:
    """Return a subject that is one argument as it came."""

    def subject(arguments: object, _: ToolContext) -> Subject:
        return Subject((str(getattr(arguments, member)),))

    return subject


def place_of(path: str, context: ToolContext) -> str:
    """Return a path as rules see it: relative to the project root where it lies in it."""
    try:
        real = Path(os.path.realpath(context.directory / path))
    except (OSError, ValueError):  # no path at all; the tool says so
        return path
    if real.is_relative_to(context.project):
        return str(real.relative_to(context.project))
    return str(real)
