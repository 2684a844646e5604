"""A file system for SQLite that fails when it is told to."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator
from typing import Any, cast

import apsw

_numbers = itertools.count()

CHANGES = frozenset({"write", "sync", "truncate"})
EVERYTHING = CHANGES | {"open", "delete", "read", "size"}
FAULTS = {
    "open": apsw.SQLITE_CANTOPEN,
    "delete": apsw.SQLITE_IOERR_DELETE,
    "read": apsw.SQLITE_IOERR_READ,
    "size": apsw.SQLITE_IOERR_FSTAT,
    "write": apsw.SQLITE_IOERR_WRITE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
}
"""What a file system says when an operation fails, by the operation."""


class Plan:
    """Counts operations on files, and decides which of them fails.

    `counted` says which operations there are to count, at first those that change a disk. `fails`
    gets the operation and its number, and returns the code of the error, or 0. `databases` counts
    how often a database is opened, `syncs` what was made durable.
    """

    def __init__(self) -> None:
        self.name = f"faulty-{next(_numbers)}"
        self.counted = CHANGES
        self.count = 0
        self.syncs = 0
        self.databases = 0
        self.fails: Callable[[str, int], int] = lambda _operation, _number: 0

    def happens(self, operation: str) -> None:
        if operation not in self.counted:
            return
        self.count += 1
        self.syncs += operation == "sync"
        code = self.fails(operation, self.count)
        if code:
            raise apsw.exception_for(code)


class _File(apsw.VFSFile):
    def __init__(self, plan: Plan, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._plan = plan

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 the name is SQLite's
        self._plan.happens("read")
        return super().xRead(amount, offset)

    def xFileSize(self) -> int:  # noqa: N802 as above
        self._plan.happens("size")
        return super().xFileSize()

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 as above
        self._plan.happens("write")
        cast("Any", super()).xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 as above
        # Nobody pulls the plug here, so there is no need to wait for the disk.
        self._plan.happens("sync")

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 as above
        self._plan.happens("truncate")
        super().xTruncate(newsize)


class _FileSystem(apsw.VFS):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        super().__init__(plan.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802 as above
        self._plan.happens("open")
        self._plan.databases += bool(flags[0] & apsw.SQLITE_OPEN_MAIN_DB)
        return _File(self._plan, "", name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 as above
        self._plan.happens("delete")
        super().xDelete(filename, syncdir)


@contextlib.contextmanager
def faulty_vfs() -> Generator[Plan]:
    """Register a file system that obeys the plan; `plan.name` is its name."""
    plan = Plan()
    system = _FileSystem(plan)
    try:
        yield plan
    finally:
        system.unregister()
