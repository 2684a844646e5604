"""What the model reads of an instruction file.

A file's text is not trusted: it could pretend that it ends and that another source speaks. So it
stands between tags that it cannot close.
"""

from __future__ import annotations

from perdure.config.location import shown
from perdure.files import enclosed
from perdure.instructions.files import InstructionFile


def baseline(value: InstructionFile) -> str:
    """Tell a file for the first time: its path, what it governs, its text."""
    return f"{_heading(value)}\n\n{_scope(value)}\n\n{_contents(value)}"


def update(_: InstructionFile, current: InstructionFile) -> str:
    """Tell a changed file: its complete current contents take the place of the earlier ones."""
    return (
        f"{_heading(current)}\n\n"
        f"The file has changed. Its {'' if current.cut else 'complete '}current contents below"
        f" supersede the earlier version from that path. {_scope(current)}\n\n{_contents(current)}"
    )


def removed(value: InstructionFile) -> str:
    """Tell that a file does not count any more."""
    return f"{_heading(value)}\n\nThis file no longer applies: disregard what it said."


def _heading(value: InstructionFile) -> str:
    return f"# Instructions from {shown(value.path)}"


def _scope(value: InstructionFile) -> str:
    if not value.governs:
        return "They are the user's own and govern every project."
    return (
        f"They govern {shown(value.governs)} and everything below it;"
        " where they conflict with those of a directory above, these count."
    )


def _contents(value: InstructionFile) -> str:
    if not value.text:
        return "The file is empty."
    return "\n\n".join([enclosed(value.text, "file", value.digest), *_notes(value)])


def _notes(value: InstructionFile) -> list[str]:
    notes: list[str] = []
    if value.cut:
        notes.append(f"Note: only the first 64 KiB of {value.size:,} bytes stand above.")
    if value.damaged:
        notes.append("Note: the file is not valid UTF-8; what is no text is shown as U+FFFD.")
    return notes
