"""The files that come with a skill, by name; none of them is opened."""

from __future__ import annotations

import os
import stat

import msgspec

from perdure.files import directory, names_in
from perdure.skills.index import FILE, Skill

MOST = 100
"""How many files are named."""

_MOST_LOOKED_AT = 1000
_DEEPEST = 4
_LEFT_OUT = frozenset({"__pycache__", "node_modules"})


class Resources(msgspec.Struct, frozen=True):
    """Paths of files relative to a skill's folder, and whether they are all that there are."""

    names: tuple[str, ...]
    complete: bool


def resources(skill: Skill) -> Resources:
    """Return the regular files in a skill's folder, those nearest to the top first.

    Hidden ones and caches are left out, and no link is followed. It may block.
    """
    found: list[str] = []
    complete = True
    room = _MOST_LOOKED_AT
    waiting: list[tuple[str, ...]] = [()]
    for parts in waiting:  # grows as it goes
        try:
            entries = _entries(skill, parts, room)
        except OSError:
            complete = False
            continue
        room -= len(entries)
        complete = complete and room > 0
        for name, mode in entries:
            path = (*parts, name)
            if stat.S_ISREG(mode) and path != (FILE,):
                found.append("/".join(path))
            elif stat.S_ISDIR(mode) and len(path) < _DEEPEST:
                waiting.append(path)
            elif stat.S_ISDIR(mode):
                complete = False
    return Resources(tuple(found[:MOST]), complete and len(found) <= MOST)


def _entries(skill: Skill, parts: tuple[str, ...], most: int) -> list[tuple[str, int]]:
    """Return name and mode of at most so many entries of one directory, sorted by name."""
    above = skill.folder.relative_to(skill.root).parts
    with directory(skill.root, (*above, *parts)) as held:
        return [
            (name, os.stat(name, dir_fd=held, follow_symlinks=False).st_mode)
            for name in sorted(names_in(held, most))
            if not name.startswith(".") and name not in _LEFT_OUT
        ]
