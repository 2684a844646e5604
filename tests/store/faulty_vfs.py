"""A file system for SQLite that fails when it is told to."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator
from typing import Any, cast

import apsw

_numbers = itertools.count()


class Plan:
    """Counts what changes a disk and how often a database is opened, and decides which of it fails.

    `fails` gets the operation (`write`, `sync` or `truncate`) and its number, and returns the code
    of the error, or 0.
    """

    def __init__(self) -> None:
        self.name = f"faulty-{next(_numbers)}"
        self.count = 0
        self.syncs = 0
        self.databases = 0
        self.fails: Callable[[str, int], int] = lambda _operation, _number: 0

    def happens(self, operation: str) -> None:
        self.count += 1
        self.syncs += operation == "sync"
        code = self.fails(operation, self.count)
        if code:
            raise apsw.exception_for(code)


class _File(apsw.VFSFile):
    def __init__(self, plan: Plan, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._plan = plan

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802 the name is SQLite's
        self._plan.happens("write")
        cast("Any", super()).xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802 as above
        self._plan.happens("sync")
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 as above
        self._plan.happens("truncate")
        super().xTruncate(newsize)


class _FileSystem(apsw.VFS):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        super().__init__(plan.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:  # noqa: N802 as above
        self._plan.databases += bool(flags[0] & apsw.SQLITE_OPEN_MAIN_DB)
        return _File(self._plan, "", name, flags)


@contextlib.contextmanager
def faulty_vfs() -> Generator[Plan]:
    """Register a file system that obeys the plan; `plan.name` is its name."""
    plan = Plan()
    system = _FileSystem(plan)
    try:
        yield plan
    finally:
        system.unregister()
