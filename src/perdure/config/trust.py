"""Which projects the user trusts.

Trust belongs to a project root by its path. It covers every file below it that belongs to the same
project, now and later: whoever trusts a project trusts those who can change it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from perdure.config.location import find_project, shown
from perdure.config.paths import data_dir
from perdure.errors import ConfigurationError

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
    return str(find_project(directory).project) in _read(data_dir(env) / _NAME).projects


def trusted_projects(env: Mapping[str, str]) -> tuple[str, ...]:
    """Return the roots of all trusted projects, sorted. Raises ConfigurationError as `trust`."""
    return _read(data_dir(env) / _NAME).projects


def _change(project: Path, env: Mapping[str, str], *, add: bool) -> None:
    file = data_dir(env) / _NAME
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(file):
            others = set(_read(file).projects) - {str(project)}
            _write(file, _Trusted(tuple(sorted(others | {str(project)} if add else others))))
    except OSError as error:
        raise ConfigurationError(f"{shown(file)} cannot be written: {error.strerror}") from error


def _read(file: Path) -> _Trusted:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Trusted)
    except (FileNotFoundError, NotADirectoryError):
        return _Trusted()
    except OSError as error:
        raise ConfigurationError(f"{shown(file)} cannot be read: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{shown(file)} is damaged; delete it and trust the projects again"
        ) from error


def _write(file: Path, trusted: _Trusted) -> None:
    # Beside it and then in its place, so that a crash leaves the old list or the new one.
    draft = file.with_suffix(f".{os.getpid()}.tmp")
    try:
        with draft.open("wb") as opened:
            opened.write(msgspec.json.encode(trusted) + b"\n")
            opened.flush()
            os.fsync(opened.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _alone(file: Path) -> Generator[None]:
    # Only who changes the list pays for the import.
    import fcntl

    with file.with_suffix(".lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
