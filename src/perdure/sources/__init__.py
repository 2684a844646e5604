"""The built-in Context Sources: what a session is told beside instruction files."""

from perdure.sources.builtin import convention, date, environment, opening
from perdure.sources.entries import check_entry, entries
from perdure.sources.skills import SkillCatalog

__all__ = ["SkillCatalog", "check_entry", "convention", "date", "entries", "environment", "opening"]
