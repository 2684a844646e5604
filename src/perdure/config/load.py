"""Find and read the configuration files of a Location."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perdure.config.layers import Layer, combine, layer, protected
from perdure.config.location import Location, find_project, shown
from perdure.config.paths import config_dir
from perdure.config.schema import Config
from perdure.config.trust import is_trusted
from perdure.errors import ConfigurationError

USER_FILE = "config.toml"
"""The user's own file, in the configuration directory."""

PROJECT_FILE = "perdure.toml"
"""A project's file, in any directory from the project root down to the Location."""

_LIMIT = 1024 * 1024


def load(directory: str | Path, env: Mapping[str, str]) -> Config:
    """Return the configuration in effect for a directory.

    The user's file comes first, then the project's files from the project root down to the
    directory: a later one counts more. In a project that is not trusted, keys that could redirect
    a credential or run code are left out and listed in `Config.ignored`. Raises ConfigurationError
    for whatever cannot be read or is not right, and DirectoryNotFound.
    """
    location = find_project(directory)
    user = config_dir(env) / USER_FILE
    content = read(user)
    layers = [] if content is None else [_layer(content, user, env)]
    return combine([*layers, *_project_layers(location, env)])


def from_mapping(
    mapping: Mapping[str, object],
    origin: str = "the given configuration",
    env: Mapping[str, str] | None = None,
) -> Config:
    """Return the configuration that a program gives, in the shape of the TOML file.

    `origin` names it in messages and in `Config.origins`. Everything in it counts. Raises
    ConfigurationError.
    """
    return combine([layer(mapping, origin, os.environ if env is None else env)])


def read(file: Path) -> dict[str, Any] | None:
    """Return what a TOML file says, or None where there is no such file.

    Raises ConfigurationError for anything else than a regular UTF-8 file of valid TOML up to 1 MiB.
    """
    raw = _bytes(file)
    return None if raw is None else _parse(raw, shown(file))


def _project_layers(location: Location, env: Mapping[str, str]) -> list[Layer]:
    files = [directory / PROJECT_FILE for directory in location.between()]
    found = [(file, content) for file in files if (content := read(file)) is not None]
    # The list of trusted projects is looked at only where it decides something.
    trusted = any(protected(content) for _, content in found) and is_trusted(location.project, env)
    return [_layer(content, file, env, trusted=trusted) for file, content in found]


def _layer(content: object, file: Path, env: Mapping[str, str], *, trusted: bool = True) -> Layer:
    return layer(content, shown(file), env, trusted=trusted, directory=file.parent)


def _bytes(file: Path) -> bytes | None:
    try:
        # Not to be stopped by a FIFO that nobody writes to.
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _all_of(descriptor, file)
        finally:
            os.close(descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigurationError(f"{shown(file)} cannot be read: {error.strerror}") from error


def _all_of(descriptor: int, file: Path) -> bytes:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise ConfigurationError(f"{shown(file)} must be a regular file")
    raw = bytearray()
    while chunk := os.read(descriptor, _LIMIT):
        raw += chunk
        if len(raw) > _LIMIT:
            raise ConfigurationError(f"{shown(file)} is larger than 1 MiB; that is too much")
    return bytes(raw)


def _parse(raw: bytes, file: str) -> dict[str, Any]:
    # Most Locations have no file, and pay nothing for the parser.
    import tomllib

    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigurationError(f"{file}: line {line} is not valid UTF-8") from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = shown(str(error).replace("end of document", f"line {text.count(chr(10)) + 1}"))
        raise ConfigurationError(f"{file} is not valid TOML: {problem}") from error
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file} is not usable TOML: {shown(str(error))}") from error
