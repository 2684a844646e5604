"""What was typed in a project before, kept for the next time."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from prompt_toolkit.history import History

from perdure.config.paths import data_dir
from perdure.durable import write_whole
from perdure.errors import ConfigurationError

_ENTRIES = 1000
_BYTES = 1024 * 1024
_LONGEST = 32 * 1024
"""Bytes of one entry as it is kept; what is longer can be called back until the chat ends."""


class InputHistory(History):
    """Lines of JSON in a file of the data directory, one file a project, the latest last.

    It is a help and no more: where the file cannot be read or written, the chat goes on without.
    """

    def __init__(self, project: Path, env: Mapping[str, str]) -> None:
        super().__init__()
        self._file = _file_of(project, env)

    def load_history_strings(self) -> Iterable[str]:
        """Return what was typed, the latest first."""
        data = self._read()
        entries = [entry for each in data.splitlines() if (entry := _entry(each))]
        if self._file and (len(entries) > _ENTRIES or len(data) > _BYTES):
            entries = entries[-_ENTRIES // 2 :]
            with suppress(OSError):
                write_whole(self._file, _fitting(entries))
        return reversed(entries)

    def store_string(self, string: str) -> None:
        """Keep what was typed."""
        entry = _line(string)
        if self._file is None or len(entry) > _LONGEST:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        with suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._file, flags, 0o600)
            try:
                os.write(descriptor, entry)
            finally:
                os.close(descriptor)

    def _read(self) -> bytes:
        with suppress(OSError):
            return self._file.read_bytes() if self._file else b""
        return b""


def _file_of(project: Path, env: Mapping[str, str]) -> Path | None:
    digest = hashlib.sha256(str(project).encode()).hexdigest()[:32]
    with suppress(ConfigurationError):
        return data_dir(env) / "typed" / f"{digest}.jsonl"
    return None


def _line(entry: str) -> bytes:
    # A lone surrogate, as a terminal of another encoding may send, is no reason to stop.
    return msgspec.json.encode(entry.encode("utf-8", "replace").decode()) + b"\n"


def _entry(data: bytes) -> str:
    try:
        return msgspec.json.decode(data, type=str)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""


def _fitting(entries: list[str]) -> list[bytes]:
    """Return the lines of the latest entries that fit into half of the bound."""
    left, kept = _BYTES // 2, list[bytes]()
    for each in map(_line, reversed(entries)):
        left -= len(each)
        if left < 0:
            break
        kept.append(each)
    return kept[::-1]
