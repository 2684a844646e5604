"""The stored outputs of a session that is being imported: out of sight until all is right.

They are written into a directory of their own beside those of the sessions, and take their place
by one rename before the session itself is written. A process that dies leaves a directory that
nobody looks into; the next import removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

from perdure.config.location import shown
from perdure.durable import CREATE, sync_directory
from perdure.errors import ImportRefused, StoreError, StoreFull

_HIDDEN = ".import-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Staging:
    """Holds the outputs of one import; its methods block.

    `root` is the directory with one directory of outputs for each session. Raises StoreError where
    they cannot be kept.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._target: Path | None = None
        self._path: Path | None = None
        self._locks: list[int] = []
        self._made_root = False
        self._left_over = False
        self._over = False

    def create(self, name: str) -> BinaryIO:
        """Open a new file for the output of that name; what is written is durable when closed."""
        if self._over:  # whoever reads a stream may come to know late that it was given up
            raise ImportRefused("the import was given up; nothing was imported")
        with self._explained():
            path = (self._path or self._begin()) / name
            raw = os.fdopen(os.open(path, CREATE, 0o600), "wb")
        return cast("BinaryIO", _Durable(raw, self._explained))

    def reserve(self, session: str) -> None:
        """Make sure that no other import is about to give outputs to that session.

        What an earlier one left there, which nobody owns, is gone after `place`.
        """
        self._target = self._root / session
        with self._explained():
            self._left_over = os.path.lexists(self._target)
            if self._left_over and not self._lock(self._target):
                raise ImportRefused(
                    f"session {session} is being imported by another process; nothing was imported"
                )

    def place(self) -> None:
        """Put the outputs where the session will look for them; its session must be new."""
        if self._target is None:
            return
        with self._explained():
            if self._left_over:
                shutil.rmtree(self._target)
            if self._path is not None:
                sync_directory(self._path)
                self._path = self._path.rename(self._target)
                sync_directory(self._root)

    def keep(self) -> None:
        """Leave the outputs where they are, now that the session is there."""
        self._path = None
        self._made_root = False
        self.discard()

    def discard(self) -> None:
        """Remove all that is not kept; safe to call again, and raises nothing."""
        self._over = True
        if self._path is not None:
            shutil.rmtree(self._path, ignore_errors=True)
        if self._made_root:
            with suppress(OSError):
                self._root.rmdir()
        while self._locks:
            os.close(self._locks.pop())

    def _begin(self) -> Path:
        self._made_root = not self._root.exists()
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._remove_left_over()
        self._path = self._root / f"{_HIDDEN}{secrets.token_hex(8)}"
        self._path.mkdir(mode=0o700)
        self._lock(self._path)
        return self._path

    def _remove_left_over(self) -> None:
        for path in self._root.glob(f"{_HIDDEN}*"):
            with suppress(OSError):
                if self._lock(path):
                    shutil.rmtree(path)

    def _lock(self, path: Path) -> bool:
        """Hold a directory until the end of this import; False where another import holds it.

        The operating system lets go of it when the process dies.
        """
        descriptor = os.open(path, _DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._locks.append(descriptor)
        return True

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            full = error.errno in {errno.ENOSPC, errno.EDQUOT}
            raise (StoreFull if full else StoreError)(
                f"the outputs of the session cannot be kept in {shown(self._root)} "
                f"({error.strerror}); nothing was imported"
            ) from error


class _Durable:
    """A file of which everything is on the disk when it is closed."""

    def __init__(self, file: BinaryIO, explained: Any) -> None:
        self._file = file
        self._explained = explained

    def write(self, data: bytes) -> None:
        with self._explained():
            self._file.write(data)

    def close(self) -> None:
        with self._explained(), self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
