"""The skills of one Location at one moment."""

from __future__ import annotations

import difflib
from pathlib import Path

import msgspec

from perdure.files import Trouble

FILE = "SKILL.md"

_LONGEST_COMPARED = 64


class Skill(msgspec.Struct, frozen=True):
    """A skill that can be loaded.

    `directory` is its folder as it was found, `folder` the same with every link resolved, and
    `file` the canonical path of its `SKILL.md`, which lies in it. They are opened by walking down
    from `root`. `description` and `compatibility` are one printable line each.
    """

    name: str
    description: str
    compatibility: str
    directory: Path
    folder: Path
    file: Path
    root: Path


class SkillIndex(msgspec.Struct, frozen=True):
    """Which skills there are, by name, one of each name.

    `troubles` tell what is not used, or not as it is written. `blocked` are places and folders that
    could not be examined: what they hold is not known.
    """

    skills: tuple[Skill, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    blocked: tuple[Trouble, ...] = ()

    def find(self, name: str) -> Skill | None:
        """Return the skill of that name, or None."""
        return next((skill for skill in self.skills if skill.name == name), None)

    def near(self, name: str) -> list[str]:
        """Return the names most like one that was not found; all names where none is like it."""
        names = [skill.name for skill in self.skills]
        wanted = name.lower()[:_LONGEST_COMPARED]
        return difflib.get_close_matches(wanted, names, n=3, cutoff=0.5) or names

    def reason(self, name: str) -> Trouble | None:
        """Return why a folder of that name gives no skill of that name, where there is one."""
        for trouble in (*self.blocked, *self.troubles):
            folder = trouble.path.parent if trouble.path.name == FILE else trouble.path
            if folder.name == name:
                return trouble
        return None

    def may_hide(self, directory: Path) -> bool:
        """Say whether a skill that was in a folder may still be there, where nobody can look."""
        return any(directory.is_relative_to(trouble.path) for trouble in self.blocked)
