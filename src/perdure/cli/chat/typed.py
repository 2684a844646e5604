"""What a line that was typed means: a prompt, or a command of the chat."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from perdure.errors import UsageError

_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)


class Command(msgspec.Struct, frozen=True):
    """A command, and what stands behind its name."""

    name: str
    argument: str = ""


def understood(text: str, names: Collection[str]) -> Command | str:
    """Return the command that a text is, or the text where it is a prompt.

    A command is a slash and one word. So a path such as `/usr/bin`, a line that begins with `//`
    and a comment in pasted code are prompts. Raises UsageError for a word that is no command.
    """
    found = _COMMAND.fullmatch(text.strip())
    if found is None:
        return text
    name = found[1].lower()
    if name not in names:
        raise UsageError(f"there is no /{name}{_nearest(name, names)}; /help lists the commands")
    return Command(name, (found[2] or "").strip())


def is_command(text: str) -> bool:
    """Say whether a text is a command, one that there is or not."""
    return _COMMAND.fullmatch(text.strip()) is not None


def _nearest(name: str, names: Collection[str]) -> str:
    # Only who mistypes pays for the import.
    from difflib import get_close_matches

    near = get_close_matches(name, names, 1)
    return f"; did you mean /{near[0]}?" if near else ""
