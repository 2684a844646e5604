"""The identity of an instruction file: a Context Source key made of its canonical path."""

from __future__ import annotations

import re
from pathlib import Path

PREFIX = "instructions/"

_ESCAPE = re.compile(rb"%([0-9A-F]{2})")


def key_of(path: Path) -> str:
    """Return the key of a canonical path; no two paths have the same.

    A key is printable, so what would not print is written as its bytes in the file system, `%0A`
    for a newline, and a percent sign as `%25`.
    """
    return PREFIX + "".join(_escaped(char) for char in str(path))


def path_of(key: str) -> Path | None:
    """Return the path that a key was made of; None where it is no key of an instruction file."""
    if not key.startswith(PREFIX):
        return None
    raw = _ESCAPE.sub(_byte, key.removeprefix(PREFIX).encode(errors="surrogateescape"))
    path = raw.decode(errors="surrogateescape")
    return Path(path) if path.startswith("/") and "\0" not in path else None


def _escaped(char: str) -> str:
    if char.isprintable() and char != "%":
        return char
    return "".join(f"%{byte:02X}" for byte in char.encode(errors="surrogateescape"))


def _byte(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)])
