"""What SQLite and the file system say, as errors of Perdure that say what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import apsw

from perdure.errors import StoreDamaged, StoreError, StoreFull, StoreLocked, StoreReadOnly

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)


def translate(error: Exception, path: Path, system_errno: int = 0) -> Exception:
    """Return what a caller should see instead of an error that happened inside the store.

    Errors that are neither of SQLite nor of the file's content come back unchanged.
    """
    if isinstance(error, apsw.Error):
        seen: Exception = from_sqlite(error, path, system_errno)
    elif isinstance(error, UnicodeDecodeError):
        seen = damaged(path, "a text in it is not UTF-8")
    else:
        return error
    seen.__cause__ = error
    return seen


def from_sqlite(error: apsw.Error, path: Path, system_errno: int = 0) -> StoreError:
    """Return the error of Perdure that stands for an error of SQLite at `path`.

    `system_errno` is what the operating system said to SQLite last, 0 where it is not known.
    """
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, apsw.FullError):
        return _full(path)
    if isinstance(error, apsw.BusyError | apsw.LockedError | apsw.ProtocolError):
        return StoreLocked(
            f"{path} is held by another process for too long ({words}); "
            "let it finish or stop it, then try again"
        )
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError):
        return read_only(path)
    if isinstance(error, apsw.CantOpenError):
        return _cannot_open(path, words)
    if isinstance(error, apsw.NotADBError):
        return not_ours(path, "it is no SQLite database, or its first page is damaged")
    if isinstance(error, apsw.CorruptError | apsw.SQLError | apsw.ConstraintError):
        return damaged(path, words)
    if isinstance(error, apsw.IOError):
        return _full(path) if system_errno in _NO_SPACE else _broken(path, words)
    return StoreError(f"{path} cannot serve ({words}); run `perdure doctor`")


def from_system(error: OSError | ValueError, path: Path) -> StoreError:
    """Return the error of Perdure for a path that the file system refuses."""
    if not isinstance(error, OSError):
        return StoreError(f"{str(path)!r} cannot be a file name ({error}); choose another file")
    if error.errno in _NO_SPACE:
        return _full(path)
    if error.errno in _NO_ACCESS:
        return read_only(path)
    return StoreError(
        f"{path} cannot be opened ({error.strerror or error}); choose another file for the store"
    )


def damaged(path: Path, words: str) -> StoreDamaged:
    """Return the error for a database whose content is not what was written."""
    return StoreDamaged(
        f"{path} is damaged ({words}); run `perdure doctor --repair` or restore a backup"
    )


def not_ours(path: Path, reason: str) -> StoreError:
    """Return the error for a file that no Perdure wrote."""
    return StoreError(
        f"{path} is not a database of Perdure: {reason}; choose another file for the store"
    )


def vanished(path: Path) -> StoreError:
    """Return the error for a database that was removed or replaced while it is open."""
    return StoreError(
        f"{path} or a file beside it (-wal, -shm) was removed or replaced while it was open, "
        "so this write is not kept; put it back, or restart Perdure"
    )


def read_only(path: Path) -> StoreReadOnly:
    """Return the error for a database, or a directory around it, that cannot be written."""
    return StoreReadOnly(
        f"{path} cannot be written; make the file and its directory writable, or choose another "
        "file for the store"
    )


def _cannot_open(path: Path, words: str) -> StoreError:
    if not path.exists():
        return StoreError(f"{path} was removed; put it back, or restart Perdure")
    effective = os.access in os.supports_effective_ids
    if not all(
        os.access(each, os.R_OK | os.W_OK, effective_ids=effective) for each in (path, path.parent)
    ):
        return read_only(path)
    return StoreError(
        f"{path} cannot be opened ({words}); look whether its disk is full or this process has "
        "too many open files"
    )


def _full(path: Path) -> StoreFull:
    return StoreFull(
        f"the disk with {path} is full, so this write was not stored; free some space, "
        "then try again"
    )


def _broken(path: Path, words: str) -> StoreError:
    return StoreError(
        f"reading or writing {path} failed ({words}); check the disk. What was acknowledged "
        "before is safe, this write may be missing"
    )
