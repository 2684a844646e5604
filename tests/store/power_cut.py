"""A file system for SQLite that remembers what was synced, and what a power cut would leave.

Everything that is written goes through to a real file, so the store works as ever. Beside it stands
a record of all writes, truncations, deletions and syncs in their order. Cutting the power at any
point of the record gives the files as a disk might have them then: what was synced is there; each
write since the last sync of its file is lost, kept or torn, that is, some of the 512-byte sectors
that it touches are there and others are not. A sync that fails leaves the writes before it in the
same doubt for ever, as Linux does.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal, cast

import apsw
import msgspec

SECTOR = 512
_numbers = itertools.count()


class Entry(msgspec.Struct, frozen=True):
    """One thing that was done to a file. `size` is that of a truncated file."""

    file: str
    kind: Literal["write", "truncate", "delete", "sync", "failed sync"]
    offset: int = 0
    data: bytes = b""
    size: int = 0


class Disk:
    """The record. Files whose name ends with `never_synced` are not: their syncs do nothing.

    With "" that is all of them, as with `synchronous=OFF`. `failing_sync` is the number of the one
    sync that fails.
    """

    def __init__(self, *, never_synced: str | None = None, failing_sync: int = 0) -> None:
        self.name = f"recording-{next(_numbers)}"
        self.syncs = 0
        self._never_synced = never_synced
        self._failing_sync = failing_sync
        self._record: list[Entry] = []
        self._lock = threading.Lock()

    def now(self) -> int:
        """Return the point of the record at which things stand."""
        return len(self._record)

    def note(self, entry: Entry) -> None:
        """Take in what was done."""
        with self._lock:
            self._record.append(entry)

    def sync(self, file: str) -> None:
        """Make a file durable, or fail."""
        if self._never_synced is not None and file.endswith(self._never_synced):
            return
        with self._lock:
            self.syncs += 1
            failing = self.syncs == self._failing_sync
            self._record.append(Entry(file, "failed sync" if failing else "sync"))
        if failing:
            raise apsw.exception_for(apsw.SQLITE_IOERR_FSYNC)

    def cut(self, at: int, chance: random.Random) -> dict[str, bytes]:
        """Return the files that a power cut at this point of the record leaves."""
        keeps = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))
        files: dict[str, _OnDisk] = {}
        for entry in self._record[:at]:
            file = files.setdefault(entry.file, _OnDisk())
            if entry.kind == "sync":
                file.settle(1.0, chance)
            elif entry.kind == "failed sync":
                file.settle(keeps, chance)
            else:
                file.unsynced.append(entry)
        for file in files.values():
            file.settle(keeps, chance)
        return {
            name: bytes(file.durable) for name, file in files.items() if file.durable is not None
        }


class _OnDisk:
    """A file as the disk has it: what is durable, None where there is no such file."""

    def __init__(self) -> None:
        self.durable: bytearray | None = None
        self.unsynced: list[Entry] = []

    def settle(self, keeps: float, chance: random.Random) -> None:
        """Let a part of what was not synced become durable, and forget the rest."""
        for entry in self.unsynced:
            if chance.random() < keeps:
                self._apply(entry)
            elif entry.kind == "write" and chance.random() < keeps:
                for torn in _sectors(entry):
                    if chance.random() < 0.5:
                        self._apply(torn)
        self.unsynced.clear()

    def _apply(self, entry: Entry) -> None:
        if entry.kind == "delete":
            self.durable = None
            return
        content = self.durable = self.durable or bytearray()
        end = entry.size if entry.kind == "truncate" else entry.offset + len(entry.data)
        content.extend(bytes(max(0, end - len(content))))
        if entry.kind == "truncate":
            del content[end:]
        else:
            content[entry.offset : end] = entry.data


def _sectors(entry: Entry) -> Generator[Entry]:
    """Yield what a write puts into each sector that it touches."""
    at, end = entry.offset, entry.offset + len(entry.data)
    while at < end:
        border = min(end, (at // SECTOR + 1) * SECTOR)
        part = entry.data[at - entry.offset : border - entry.offset]
        yield Entry(entry.file, "write", at, part)
        at = border


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, path: str, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._disk = disk
        self._file = Path(path).name

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 the name is SQLite's
        cast("Any", super()).xWrite(data, offset)
        self._disk.note(Entry(self._file, "write", offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 as above
        super().xTruncate(newsize)
        self._disk.note(Entry(self._file, "truncate", size=newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802 as above
        self._disk.sync(self._file)


class _FileSystem(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__(disk.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802 as above
        path = name if isinstance(name, str) else name.filename()
        return _File(self._disk, path, "", name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 as above
        super().xDelete(filename, syncdir)
        file = Path(filename).name
        self._disk.note(Entry(file, "delete"))
        if syncdir:
            self._disk.note(Entry(file, "sync"))


@contextlib.contextmanager
def recording(disk: Disk) -> Generator[Disk]:
    """Register the file system that writes this record; `disk.name` is its name."""
    system = _FileSystem(disk)
    try:
        yield disk
    finally:
        system.unregister()
