"""Which projects the user trusts.

Trust belongs to a project root by its path. It covers every file below it that belongs to the same
project, now and later: whoever trusts a project trusts those who can change it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from perdure.config.kept import KeptFile
from perdure.config.location import find_project
from perdure.config.paths import data_dir

_NAME = "trust.json"


class _Trusted(msgspec.Struct, frozen=True):
    """The file: sorted absolute paths of project roots."""

    projects: tuple[str, ...] = ()


def trust(directory: str | Path, env: Mapping[str, str]) -> Path:
    """Trust the project that a directory belongs to; return its root.

    Durable when it returns. Raises DirectoryNotFound, and ConfigurationError where the list of
    trusted projects cannot be kept.
    """
    project = find_project(directory).project
    _change(project, env, add=True)
    return project


def untrust(directory: str | Path, env: Mapping[str, str]) -> Path:
    """Take the trust of a directory's project back; return its root.

    A root that no longer exists is found by its path. Raises as `trust`.
    """
    project = Path(directory).absolute()
    if str(project) not in trusted_projects(env):
        project = find_project(directory).project
    _change(project, env, add=False)
    return project


def is_trusted(directory: str | Path, env: Mapping[str, str]) -> bool:
    """Say whether the user trusts the project that a directory belongs to. Raises as `trust`."""
    return str(find_project(directory).project) in _file(env).read().projects


def trusted_projects(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the roots of all trusted projects, sorted. Raises ConfigurationError as `trust`."""
    return _file(env).read().projects


def _change(project: Path, env: Mapping[str, str], *, add: bool) -> None:
    def change(before: _Trusted) -> _Trusted:
        others = set(before.projects) - {str(project)}
        return _Trusted(tuple(sorted(others | {str(project)} if add else others)))

    _file(env).change(change)


def _file(env: Mapping[str, str]) -> KeptFile[_Trusted]:
    return KeptFile(data_dir(env) / _NAME, _Trusted, "trust the projects")
