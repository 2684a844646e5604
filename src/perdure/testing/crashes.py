"""Named crash points: a program that ends exactly before or after one of its durable writes.

Put a `CrashingStore` around the store of a program, run the program once to learn the points that
it passes, and then once for each of them to see what is left behind.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import msgspec

from perdure.context.snapshot import SourceSnapshot
from perdure.history.events import Event, Record
from perdure.store.contract import Guard, Lease, PromptRow, SessionRow, Store

CRASHED = 86
"""The exit status of a process that ended at a crash point."""

When = Literal["before", "after"]

_POINT = re.compile(r"(?P<write>.+)#(?P<number>[1-9]\d*):(?P<when>before|after)")


class CrashPoint(msgspec.Struct, frozen=True):
    """The moment just before or after the `number`-th write of that name in a process.

    As text it is `append:prompt.admitted#1:after`; `parse` reads that.
    """

    write: str
    number: int
    when: When

    def __str__(self) -> str:
        return f"{self.write}#{self.number}:{self.when}"

    @staticmethod
    def parse(text: str) -> CrashPoint:
        """Return the point that a text names; ValueError where it names none."""
        found = _POINT.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is no crash point; one is append:prompt.admitted#1:after")
        when: When = "before" if found["when"] == "before" else "after"
        return CrashPoint(found["write"], int(found["number"]), when)


def end_process() -> None:
    """End this process as `kill -9` does, with exit status `CRASHED`: nothing is cleaned up."""
    os._exit(CRASHED)


class CrashPoints:
    """The crash points of one process. `passed` are those it came through, in order.

    At the point `at` it calls `end`, which ends the process, or raises for a use inside a process.
    """

    def __init__(
        self, at: CrashPoint | str | None = None, *, end: Callable[[], object] = end_process
    ) -> None:
        self.passed: list[CrashPoint] = []
        self._at = CrashPoint.parse(at) if isinstance(at, str) else at
        self._end = end
        self._counts: Counter[str] = Counter()

    @contextmanager
    def around(self, write: str) -> Generator[None]:
        """Make a point before and one after what is done inside; no point after what raises."""
        self._counts[write] += 1
        number = self._counts[write]
        self._reach(CrashPoint(write, number, "before"))
        yield
        self._reach(CrashPoint(write, number, "after"))

    def _reach(self, point: CrashPoint) -> None:
        if point == self._at:
            self._end()
        self.passed.append(point)


class CrashingStore:
    """Any Store, with a crash point before and after each of its durable writes.

    A write is named by its operation and the types of its events, joined by `+`, as
    `append:prompt.promoted+epoch.started+step.started`, with ` and release` where the lease goes
    with it; `create` and `restore` are named alone, as `claim`, `release` and `delete` are.
    After a point `after` the write is durable, and nobody has heard of it. `points` also takes
    points of the program's own, such as those around the effect of a tool.
    """

    def __init__(
        self,
        store: Store,
        *,
        at: CrashPoint | str | None = None,
        end: Callable[[], object] = end_process,
    ) -> None:
        self.points = CrashPoints(at, end=end)
        self._store = store

    async def create(self, session: str, events: Sequence[Event]) -> Sequence[Record]:
        """Begin a session."""
        with self.points.around("create"):
            return await self._store.create(session, events)

    async def restore(self, session: str, records: Sequence[Record]) -> None:
        """Begin a session with a whole log."""
        with self.points.around("restore"):
            await self._store.restore(session, records)

    async def append(
        self,
        session: str,
        events: Sequence[Event],
        *,
        guard: Guard | None = None,
        release: Lease | None = None,
    ) -> Sequence[Record]:
        """Append events."""
        name = ":".join(filter(None, ["append", "+".join(event.type for event in events)]))
        with self.points.around(name if release is None else f"{name} and release"):
            return await self._store.append(session, events, guard=guard, release=release)

    async def claim(self, session: str, owner: str) -> Lease | None:
        """Take the session's drain."""
        with self.points.around("claim"):
            return await self._store.claim(session, owner)

    async def release(self, lease: Lease) -> None:
        """Give up a lease."""
        with self.points.around("release"):
            await self._store.release(lease)

    async def delete(self, session: str) -> Sequence[str]:
        """Remove a session with its children."""
        with self.points.around("delete"):
            return await self._store.delete(session)

    async def events(
        self, session: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Record]:
        """Return the durable events after a seq."""
        return await self._store.events(session, after=after, limit=limit)

    async def session(self, session: str) -> SessionRow:
        """Return one session."""
        return await self._store.session(session)

    async def sessions(self) -> Sequence[SessionRow]:
        """Return all sessions."""
        return await self._store.sessions()

    async def resolve(self, prefix: str) -> str:
        """Return the one id that begins so."""
        return await self._store.resolve(prefix)

    async def prompt(self, prompt: str) -> PromptRow | None:
        """Return what is known of a prompt id."""
        return await self._store.prompt(prompt)

    async def snapshot(self, session: str) -> Mapping[str, SourceSnapshot]:
        """Return a session's Context Snapshot."""
        return await self._store.snapshot(session)

    async def version(self, session: str) -> int:
        """Return the seq of the last durable event."""
        return await self._store.version(session)

    async def check(self) -> Sequence[str]:
        """Return what is wrong with the database."""
        return await self._store.check()

    async def close(self) -> None:
        """Close the store."""
        await self._store.close()
