"""What Anthropic's models accept, as far as the scripted provider judges it.

Taken from Anthropic's documentation and from other projects' measurements, late 2026. Kept apart
from the table of `perdure.models` on purpose: it is here to find that one wrong.
"""

from __future__ import annotations

import re
from typing import Literal

_NAME = re.compile(
    r"claude-(?P<family>[a-z]+)-(?P<major>\d{1,2})(?:-(?P<minor>\d{1,2}))?(?:-\d{8})?$"
)

_NATIVE_SYSTEM = {
    ("opus", 4, 8),
    ("opus", 5, 0),
    ("opus", 5, 5),
    ("fable", 5, 0),
    ("fable", 5, 1),
    ("fable", 5, 2),
    ("mythos", 5, 0),
    ("mythos", 5, 1),
    ("mythos", 5, 2),
    ("sonnet", 5, 5),
    ("haiku", 5, 5),
}
_IGNORED_SYSTEM = {("sonnet", 5, 0)}


def system_entries(model: str) -> Literal["native", "ignored", "refused"]:
    """Return what becomes of a `system` entry among the messages."""
    version = _version(model)
    if version in _NATIVE_SYSTEM:
        return "native"
    return "ignored" if version in _IGNORED_SYSTEM else "refused"


def takes_prefill(model: str) -> bool:
    """Tell whether the last message may be the assistant's: only up to version 4.5."""
    if re.match(r"claude-\d", model):
        return True
    version = _version(model)
    return version is not None and version[1:] <= (4, 5)


def _version(model: str) -> tuple[str, int, int] | None:
    found = _NAME.match(model)
    if found is None:
        return None
    return found["family"], int(found["major"]), int(found["minor"] or 0)
