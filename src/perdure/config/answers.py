"""What the user allowed for good when a tool asked, project by project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from perdure.config.kept import KeptFile
from perdure.config.paths import data_dir
from perdure.config.schema import Rule

NAME = "permissions.json"
"""The file in the user's data directory."""


class _Allowed(msgspec.Struct, frozen=True):
    """The file: by project root, the pairs of tool and resource that are allowed."""

    projects: dict[str, list[tuple[str, str]]] = {}


class Answers:
    """Remembered permissions, in the user's file or, without one, in memory."""

    def __init__(self, env: Mapping[str, str] | None) -> None:
        """Take the environment that names the data directory; None keeps everything in memory."""
        self._file = (
            KeptFile(data_dir(env) / NAME, _Allowed, "answer the questions") if env else None
        )
        self._kept = _Allowed()

    def rules(self, project: Path) -> tuple[Rule, ...]:
        """Return what is allowed in a project. Raises ConfigurationError."""
        kept = self._file.read() if self._file else self._kept
        found = kept.projects.get(str(project), [])
        return tuple(Rule(tool, resource, "allow") for tool, resource in found)

    def remember(self, project: Path, rules: Iterable[Rule]) -> None:
        """Allow this from now on; durable when it returns, where there is a file.

        Raises ConfigurationError.
        """
        pairs = [(rule.tool, rule.resource) for rule in rules]

        def add(before: _Allowed) -> _Allowed:
            known = before.projects.get(str(project), [])
            new = [pair for pair in pairs if pair not in known]
            return _Allowed({**before.projects, str(project): [*known, *new]})

        if self._file:
            self._file.change(add)
        else:
            self._kept = add(self._kept)
