"""How a configuration is read: each value by its own check, each table by its known keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from perdure.config.location import shown
from perdure.errors import ConfigurationError

_BARE = re.compile(r"[A-Za-z0-9_-]+")

Name = Callable[[str], str | None]
"""Say what a key must be, or None where it is right."""


class Where(NamedTuple):
    """A place in a configuration: the file, the environment, the keys down to the value.

    `directory` is where the file lies, None for what is given by a program.
    """

    file: str
    env: Mapping[str, str]
    keys: tuple[str, ...] = ()
    directory: Path | None = None

    def at(self, key: str) -> Where:
        """Return the place of a key below this one."""
        return self._replace(keys=(*self.keys, key))

    def error(self, problem: str) -> ConfigurationError:
        """Return the error that something is wrong with the value here."""
        return ConfigurationError(
            f"{self.file}: {dotted(self.keys) or 'the whole of it'} {problem}"
        )


Reader = Callable[[object, Where], Any]
"""Check one value at one place and return it as it is used."""


def dotted(keys: tuple[str, ...]) -> str:
    """Return keys as TOML writes them, with dots between."""
    return ".".join(_quoted(key) for key in keys)


def _quoted(key: str) -> str:
    if _BARE.fullmatch(key):
        return key
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{shown(escaped)}"'


def each(name: Name, read: Reader) -> Reader:
    """Return a reader of a table whose keys are names."""

    def read_each(value: object, where: Where) -> dict[str, Any]:
        for key in as_table(value, where):
            if rule := name(key):
                raise where.at(key).error(f"is not a usable name: it must be {rule}")
        return {key: read(item, where.at(key)) for key, item in as_table(value, where).items()}

    return read_each


def table(fields: Mapping[str, Reader]) -> Reader:
    """Return a reader of a table whose keys are known."""

    def read_table(value: object, where: Where) -> dict[str, Any]:
        found = as_table(value, where)
        for key in found:
            if key not in fields:
                raise unknown(where.at(key), fields)
        return {key: fields[key](item, where.at(key)) for key, item in found.items()}

    return read_table


def as_table(value: object, where: Where) -> Mapping[str, object]:
    """Take a table whose keys are text."""
    if not isinstance(value, Mapping):
        raise where.error("must be a table")
    entries = cast("Mapping[object, object]", value)
    if not all(isinstance(key, str) for key in entries):
        raise where.error("must have only text as keys")
    return cast("Mapping[str, object]", value)


def unknown(where: Where, known: Mapping[str, Any]) -> ConfigurationError:
    """Return the error for a key that nobody knows, with the nearest one that is known."""
    # Only a mistake pays for the import.
    from difflib import get_close_matches

    if where.keys[-1] == "api_key":
        return where.error(
            "is not a known key: keys are never kept in a file;"
            " name the environment variable that holds it with api_key_env"
        )
    nearest = get_close_matches(where.keys[-1], known, n=1, cutoff=0.0)
    suggestion = dotted((*where.keys[:-1], *nearest))
    return where.error(f"is not a known key; the nearest one is {suggestion}")
