"""Where the user's own files lie."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from perdure.config.location import shown
from perdure.errors import ConfigurationError


def config_dir(env: Mapping[str, str]) -> Path:
    """Return the user's configuration directory; it need not exist.

    `PERDURE_CONFIG_DIR`, else `perdure` in `XDG_CONFIG_HOME`, else `~/.config/perdure`.
    """
    return _directory(env, "PERDURE_CONFIG_DIR", "XDG_CONFIG_HOME", ".config")


def data_dir(env: Mapping[str, str]) -> Path:
    """Return the user's data directory; it need not exist.

    `PERDURE_DATA_DIR`, else `perdure` in `XDG_DATA_HOME`, else `~/.local/share/perdure`.
    """
    return _directory(env, "PERDURE_DATA_DIR", "XDG_DATA_HOME", ".local/share")


def store_path(env: Mapping[str, str]) -> Path:
    """Return the path of the store: `PERDURE_STORE`, else `perdure.db` in the data directory.

    Raises ConfigurationError for a URL.
    """
    value = env.get("PERDURE_STORE")
    if not value:
        return data_dir(env) / "perdure.db"
    if "://" in value:  # not repeated in the message: it may hold a password
        raise ConfigurationError("PERDURE_STORE is a URL; it must be the path of a SQLite file")
    return _absolute(env, "PERDURE_STORE", value)


def home_dir(env: Mapping[str, str]) -> Path:
    """Return the user's home directory; raise ConfigurationError where it cannot be told."""
    home = Path(env.get("HOME", ""))
    if home.is_absolute():
        return home
    try:
        return Path.home()
    except RuntimeError as error:
        raise ConfigurationError(
            "the home directory is not known; set HOME, or PERDURE_CONFIG_DIR and PERDURE_DATA_DIR"
        ) from error


def _directory(env: Mapping[str, str], own: str, shared: str, below_home: str) -> Path:
    if value := env.get(own):
        return _absolute(env, own, value)
    base = Path(env.get(shared, ""))
    # The XDG convention: a relative path there is to be ignored.
    return (base if base.is_absolute() else home_dir(env) / below_home) / "perdure"


def _absolute(env: Mapping[str, str], name: str, value: str) -> Path:
    if "\0" in value or not _is_unicode(value):
        raise ConfigurationError(f"{name} is {shown(value)}, which cannot be used as a path")
    if value == "~" or value.startswith("~/"):
        return home_dir(env) / value[2:]
    return Path(value).absolute()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
