"""Find the skills of a Location, and read of each no more than what it is for."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

from perdure.config.location import Location, shown
from perdure.files import (
    Trouble,
    as_text,
    directory,
    judge,
    names_in,
    read_below,
    without_broken_end,
)
from perdure.skills import frontmatter
from perdure.skills.index import FILE, Skill, SkillIndex
from perdure.skills.places import Place, places

LONGEST_DESCRIPTION = 1024
"""How many characters of a description count."""

MOST = 300
"""How many folders of one place are looked at."""

_MOST_NAMES = 10_000
_LONGEST_COMPATIBILITY = 500
_NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_CUT = f"its description is cut after {LONGEST_DESCRIPTION} characters"
_DAMAGED = "it is not valid UTF-8; what is no text is shown as U+FFFD"
_RULE = "1 to 64 lower case letters, digits and single hyphens"


def find_skills(location: Location, user: Sequence[Path] = ()) -> SkillIndex:
    """Look at every place where skills of a Location may lie.

    `user` are the places of the user's own skills, as `user_skills` returns them. Of two skills
    with one name the nearer one counts, and the user's own come last. Nothing here raises: what
    cannot be used or examined is in the index, with the reason. It may block; call it in a thread.
    """
    search = _Search()
    for place in places(location, user):
        search.look_into(place)
    return search.index()


class _Search:
    """Collects what is found, the skills that count more first."""

    def __init__(self) -> None:
        self._skills: dict[str, Skill] = {}
        self._seen: set[Path] = set()
        self._troubles: list[Trouble] = []
        self._blocked: list[Trouble] = []

    def index(self) -> SkillIndex:
        skills = (self._skills[name] for name in sorted(self._skills))
        return SkillIndex(tuple(skills), tuple(self._troubles), tuple(self._blocked))

    def look_into(self, place: Place) -> None:
        try:
            refusal, canonical = judge(place.directory, place.root, directory=True)
            if refusal:
                return self._refuse(place.directory, refusal)
            names = [] if self._is_known(canonical) else self._folder_names(place, canonical)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            return self._block(place.directory, error)
        found = [self._skill(place.directory / name, place.root) for name in names]
        # A folder that has the name of its skill counts more than one that only claims it.
        for skill in sorted(filter(None, found), key=_is_misnamed):
            self._add(skill)
        return None

    def _folder_names(self, place: Place, canonical: Path) -> list[str]:
        with directory(canonical, ()) as held:
            names = [name for name in names_in(held, _MOST_NAMES) if not name.startswith(".")]
        if len(names) > MOST:
            reason = f"it holds {len(names)} names; only the first {MOST} are looked at"
            self._troubles.append(Trouble(place.directory, reason))
        return sorted(names)[:MOST]

    def _skill(self, path: Path, root: Path | None) -> Skill | None:
        try:
            if not stat.S_ISDIR(path.stat().st_mode):
                return None
            refusal, folder = judge(path, root, directory=True)
            if refusal:
                return self._refuse(path, refusal)
            refusal, file = judge(folder / FILE, folder, bounds="its folder")
        except (FileNotFoundError, NotADirectoryError):
            return None  # no folder any more, or one of something else
        except OSError as error:
            return self._block(path, error)
        if self._is_known(folder):
            return None
        if refusal:
            return self._refuse(path / FILE, refusal)
        try:
            head = read_below(root or folder, file, _head)
        except OSError as error:
            return self._block(path, error)
        return self._described(head, path, folder, file, root or folder)

    def _described(
        self, head: bytes, path: Path, folder: Path, file: Path, root: Path
    ) -> Skill | None:
        text, damaged = as_text(without_broken_end(head))
        read = frontmatter.read(text)
        if isinstance(read, str):
            return self._refuse(path / FILE, read + ("; nor is it valid UTF-8" if damaged else ""))
        name, name_remark = _name(read.name, path.name)
        description, whole = _one_line(read.description, LONGEST_DESCRIPTION)
        if not name:
            return self._refuse(path / FILE, name_remark)
        if not description:
            return self._refuse(path / FILE, "it has no description that says when to use it")
        remarks = (read.remark, name_remark, "" if whole else _CUT, _DAMAGED if damaged else "")
        self._troubles += [Trouble(path / FILE, remark) for remark in remarks if remark]
        compatibility, _ = _one_line(read.compatibility, _LONGEST_COMPATIBILITY)
        return Skill(name, description, compatibility, path, folder, file, root)

    def _add(self, skill: Skill) -> None:
        first = self._skills.setdefault(skill.name, skill)
        if first is not skill:
            reason = f"not used: the skill {skill.name} of {shown(first.directory)} counts more"
            self._troubles.append(Trouble(skill.directory / FILE, reason))

    def _is_known(self, canonical: Path) -> bool:
        """Remember a directory; a second way to it, by a link, adds nothing."""
        known = canonical in self._seen
        self._seen.add(canonical)
        return known

    def _refuse(self, path: Path, reason: str) -> None:
        self._troubles.append(Trouble(path, f"refused, because {reason}"))

    def _block(self, path: Path, error: OSError) -> None:
        self._blocked.append(Trouble(path, f"it cannot be examined: {error.strerror}"))


def _head(descriptor: int) -> bytes:
    head = b""
    while len(head) < frontmatter.LIMIT:
        piece = os.read(descriptor, frontmatter.LIMIT - len(head))
        if not piece:
            break
        head += piece
    return head


def _name(written: str, folder: str) -> tuple[str, str]:
    """Return the name that counts, and what there is to remark; no name where none can count."""
    written = shown(written)
    if _NAME.fullmatch(written):
        differs = f"its name is {written}, that of its folder is {shown(folder)}"
        return written, "" if written == folder else f"{differs}; it is loaded as {written}"
    lack = f"its name {written[:64]} is not {_RULE}" if written else "it has no name"
    if _NAME.fullmatch(folder):
        return folder, f"{lack}; it is loaded as {folder}, after its folder"
    return "", f"{lack}, and its folder cannot give one"


def _one_line(text: str, longest: int) -> tuple[str, bool]:
    """Return a text as one printable line, and whether it is the whole text."""
    line = shown(" ".join(text.split()))
    return line[:longest], len(line) <= longest


def _is_misnamed(skill: Skill) -> tuple[bool, str]:
    return skill.name != skill.directory.name, skill.directory.name
