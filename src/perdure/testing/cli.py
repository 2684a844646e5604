"""Run the command line in a process of its own, with nothing of the user's around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from perdure.testing.wire import is_array, is_object


class Finished(msgspec.Struct, frozen=True):
    """How a command ended: its exit code, what it printed, what it said on standard error."""

    code: int
    out: str
    err: str


def run_cli(
    args: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    input: str | None = None,  # noqa: A002 - as subprocess calls it
    timeout: float = 60.0,
) -> Finished:
    """Run `python -m perdure` with `args` in a directory and return how it ended.

    Home, configuration, data and store lie in `home_of(cwd)`, so runs in one directory share their
    sessions and touch nothing else. Keys of providers are not passed on; `env` is added last.
    Without `input`, standard input is empty. After `timeout` seconds the process and all that it
    started are killed, and TimeoutError says what it had printed.
    """
    with start_cli(args, cwd, env) as process:
        try:
            out, err = process.communicate(input or "", timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            out, err = process.communicate()
            raise TimeoutError(
                f"perdure {' '.join(args)} did not end in {timeout} s; it printed {out!r} and said "
                f"{err!r}"
            ) from None
    return Finished(process.returncode, out, err)


@contextmanager
def start_cli(
    args: Sequence[str], cwd: Path, env: Mapping[str, str] | None = None
) -> Generator[subprocess.Popen[str]]:
    """Start the command as `run_cli` does and yield the process; kill what is left at the end.

    The process leads a group of its own, so a test can kill it, or the group, by its pid.
    """
    with subprocess.Popen(
        [sys.executable, "-m", "perdure", *args],
        cwd=cwd,
        env=isolated_environment(cwd) | dict(env or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                _kill(process)


def home_of(cwd: Path) -> Path:
    """Return the home directory that commands run in `cwd` have: beside it, made when missing."""
    home = cwd.resolve().with_name(f"{cwd.resolve().name}-home")
    home.mkdir(exist_ok=True)
    return home


def isolated_environment(cwd: Path) -> dict[str, str]:
    """Return the environment of a command run in `cwd`: no keys, no settings of the user."""
    home = home_of(cwd)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith("_API_KEY") and not name.startswith(("OTEL_", "PERDURE_", "XDG_"))
    }
    return kept | {
        "HOME": str(home),
        "PERDURE_CONFIG_DIR": str(home / "config"),
        "PERDURE_DATA_DIR": str(home / "data"),
        "PERDURE_STORE": str(home / "data" / "perdure.db"),
    }


def write_config(cwd: Path, config: Mapping[str, Any]) -> Path:
    """Write a configuration, such as `provider.config()`, for commands run in `cwd`."""
    path = home_of(cwd) / "config" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(to_toml(config), encoding="utf-8")
    return path


def to_toml(config: Mapping[str, Any]) -> str:
    """Return a configuration as TOML: dicts of text, numbers, booleans, lists and dicts.

    None is left out.
    """
    return "\n".join(_table(config, ())) + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    # A value must stand before any table, or it would belong to that table.
    for name, value in table.items():
        if value is not None and not is_object(value):
            yield f"{_text(name)} = {_value(value)}"
    for name, value in table.items():
        if is_object(value):
            inner = (*path, _text(name))
            yield f"[{'.'.join(inner)}]"
            yield from _table(value, inner)


def _value(value: Any) -> str:
    if is_array(value):
        return f"[{', '.join(_value(each) for each in value)}]"
    # What JSON writes for text, a number or a boolean, TOML reads.
    return msgspec.json.encode(value).decode()


def _text(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
