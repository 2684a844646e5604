"""The built-in Context Sources: facts about a session that need no file."""

from perdure.sources.builtin import convention, date, environment, opening
from perdure.sources.entries import check_entry, entries

__all__ = ["check_entry", "convention", "date", "entries", "environment", "opening"]
