"""The database file: how it comes to be, how it is opened, and whether it is still there."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol, cast

import apsw

from perdure.errors import StoreError
from perdure.store import faults

_BESIDE = ("", "-wal", "-shm")

_PAUSE = 0.001
"""Seconds between two tries to get a lock.

SQLite's own pauses grow to a hundred times that. Another process that writes without end leaves the
lock alone only for moments between two commits, and who looks so seldom may miss them all.
"""

Identity = tuple[tuple[int, int], ...]
"""Device and inode of the file and of the two that SQLite keeps beside it."""


class Cursor(Protocol):
    """Rows of one statement."""

    @property
    def get(self) -> Any: ...
    def fetchone(self) -> tuple[Any, ...] | None: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...
    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...


class Connection(Protocol):
    """What is used of an `apsw.Connection`; its own types need Python 3.12 to be complete."""

    @property
    def in_transaction(self) -> bool: ...
    @property
    def system_errno(self) -> int: ...
    def execute(self, statements: str, bindings: Any = None, /) -> Cursor: ...
    def executemany(self, statements: str, bindings: Iterable[Any], /) -> Cursor: ...
    def pragma(self, name: str, value: Any = None, /) -> Any: ...
    def changes(self) -> int: ...
    def readonly(self, name: str, /) -> bool: ...
    def wal_checkpoint(self, *, mode: int = ...) -> tuple[int, int]: ...
    def set_busy_handler(self, handler: Callable[[int], bool] | None, /) -> None: ...
    def set_wal_hook(self, hook: Callable[[Any, str, int], int], /) -> None: ...
    def close(self) -> None: ...


class Database:
    """One database file, with its resolved path.

    `busy_timeout` is how long a statement waits for another process, in seconds. `vfs` is the name
    of a registered SQLite VFS, empty for the default one.
    """

    def __init__(self, path: str | Path, *, busy_timeout: float, vfs: str = "") -> None:
        self.path = _resolve(path)
        self._busy_timeout = busy_timeout
        self._vfs = vfs or None

    def create(self) -> None:
        """Create the file and its directory where they do not exist, for this user only."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with contextlib.suppress(FileExistsError):
                _create(self.path)
            mode = self.path.stat().st_mode
        except OSError as error:
            raise faults.from_system(error, self.path) from error
        if not stat.S_ISREG(mode):
            kind = "directory" if stat.S_ISDIR(mode) else "special file"
            raise StoreError(f"{self.path} is a {kind}; name a file for the store")

    def connect(self) -> Connection:
        """Open a connection; raises apsw.Error."""
        connection = apsw.Connection(
            str(self.path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=self._vfs
        )
        connection.set_busy_handler(self._wait)
        connection.wal_autocheckpoint(0)
        return cast("Connection", connection)

    def turn_on_log(self, connection: Connection) -> bool:
        """Have the file keep a write-ahead log; tell whether its file system can.

        Waits for other processes as long as a statement does, then raises apsw.BusyError.
        """
        # SQLite reads before it takes the lock for the change, and who has read is refused at once
        # where two begin in the same moment: one of them must give way for the other to go on.
        # Elsewhere in it SQLite would wait, so that waits would multiply; here all count as one.
        connection.set_busy_handler(None)
        try:
            tries = 0
            while True:
                try:
                    return connection.pragma("journal_mode", "wal") == "wal"
                except apsw.BusyError:
                    if not self._wait(tries):
                        raise
                tries += 1
        finally:
            connection.set_busy_handler(self._wait)

    def _wait(self, tries: int) -> bool:
        """Pause before another try; return False where enough were made."""
        # Tries are counted, not time: a process that was stopped meanwhile has not waited.
        if tries * _PAUSE >= self._busy_timeout:
            return False
        time.sleep(_PAUSE)
        return True

    def identity(self) -> Identity | None:
        """Return which files the path leads to now; None where one is missing."""
        try:
            found = [os.stat(f"{self.path}{end}") for end in _BESIDE]  # noqa: PTH116 twice as fast, and it runs at each commit
        except OSError:
            return None
        return tuple((each.st_dev, each.st_ino) for each in found)


def text(raw: bytes | None) -> str:
    """Return a text that was read as bytes; what is damaged in it shows as U+FFFD.

    SQLite hands out a text that is no UTF-8 as an error of the whole query, and one damaged row
    must not keep the others from being read.
    """
    return "" if raw is None else raw.decode(errors="replace")


def _resolve(path: str | Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise faults.from_system(error, Path(path)) from error


def _create(path: Path) -> None:
    # Closing a descriptor drops every lock that this process holds on the file, so where it can be
    # avoided none is opened: another store of this process may be using it already.
    if sys.platform == "linux":
        os.mknod(path, 0o600 | stat.S_IFREG)
    else:
        path.touch(mode=0o600, exist_ok=False)
