"""The skills that are there: what each is for, and how to load one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import msgspec

from perdure.config.location import Location, shown
from perdure.context import ABSENT, UNAVAILABLE, Absent, Diagnostic, Source, Unavailable
from perdure.context.snapshot import Snapshot
from perdure.files import Trouble
from perdure.skills import Skill, SkillIndex, find_skills

_log = logging.getLogger(__name__)

KEY = "perdure/skills"

MOST = 100
"""How many skills are listed."""

LIMIT = 16 * 1024
"""How long the list may be, in bytes."""


class ListedSkill(msgspec.Struct, frozen=True):
    """One skill as the model is told of it; `directory` is its folder."""

    name: str
    description: str
    directory: str


class SkillList(msgspec.Struct, frozen=True, omit_defaults=True):
    """The skills by name, and how many `more` there are than are listed."""

    skills: tuple[ListedSkill, ...]
    more: int = 0


class SkillCatalog:
    """Tells the model of the skills of one Location.

    `user` are the places of the user's own skills. Keep a catalog as long as the Location stays
    the same, so that a disk which hangs is not looked at again and again.
    """

    def __init__(self, location: Location, user: Sequence[Path] = ()) -> None:
        self._location = location
        self._user = tuple(user)
        self._told: tuple[ListedSkill, ...] = ()
        self._troubles: tuple[Trouble, ...] = ()
        self._goes_on = False
        self._is_first = True
        self._source = Source(
            key=KEY,
            type=SkillList,
            load=self._load,
            baseline=lambda value: f"{_HEADING}\n\n{_USE}\n\n{_lines(value)}",
            update=lambda _, current: (
                f"{_HEADING}\n\nThe skills have changed; this list replaces the earlier one."
                f" {_USE}\n\n{_lines(current)}"
            ),
            removed=lambda _: f"{_HEADING}\n\nThere are no skills any more: none can be loaded.",
        )

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """What the last look could not use, or not as it is written, and why."""
        return [Diagnostic(KEY, "load", str(trouble)) for trouble in self._troubles]

    def source(self, told: Snapshot) -> Source[SkillList]:
        """Return the Context Source, which is the same one every time.

        It is absent where there are no skills. It is Unavailable while a skill that was told, as
        the Context Snapshot `told` has it, may lie where nobody can look now.
        """
        self._told, self._goes_on = _listed(told), bool(told)
        return self._source

    def _load(self) -> SkillList | Unavailable | Absent:
        told = self._told
        index = find_skills(self._location, self._user)
        self._remember((*index.troubles, *index.blocked))
        if any(index.may_hide(Path(skill.directory)) for skill in told):
            return UNAVAILABLE
        return _list(index) if index.skills else ABSENT

    def _remember(self, troubles: tuple[Trouble, ...]) -> None:
        # A session that goes on has been warned when it began, in whichever process that was.
        level = logging.INFO if self._is_first and self._goes_on else logging.WARNING
        for trouble in troubles:
            if trouble not in self._troubles:
                _log.log(level, "skill %s", trouble)
        self._troubles, self._is_first = troubles, False


_HEADING = "# Skills"
_USE = (
    "Each skill is a folder of instructions for one kind of task. When a task fits a description,"
    " load that skill by its name with the tool `skill` before you begin."
)


def _list(index: SkillIndex) -> SkillList:
    listed: list[ListedSkill] = []
    room = LIMIT
    for skill in index.skills[:MOST]:
        entry = _entry(skill)
        room -= len(_line(entry).encode()) + 1
        if room < 0:
            break
        listed.append(entry)
    return SkillList(tuple(listed), len(index.skills) - len(listed))


def _entry(skill: Skill) -> ListedSkill:
    return ListedSkill(skill.name, skill.description, str(skill.directory))


def _lines(value: SkillList) -> str:
    lines = "\n".join(map(_line, value.skills))
    if not value.more:
        return lines
    return f"{lines}\n\nNote: {value.more} more skills are not listed; they can be loaded, too."


def _line(skill: ListedSkill) -> str:
    return f"- {skill.name} ({shown(skill.directory)}): {skill.description}"


def _listed(told: Snapshot) -> tuple[ListedSkill, ...]:
    entry = told.get(KEY)
    try:
        return msgspec.convert(entry.value, SkillList).skills if entry else ()
    except msgspec.ValidationError:  # what cannot be understood is told anew anyway
        return ()
