"""A store at work, with a record of what it acknowledged, to hold against what is there later."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TypeVar

import anyio

from perdure.errors import ConcurrencyError, StoreError
from perdure.history import events as ev
from perdure.store.contract import Guard, Lease
from perdure.store.sqlite import SQLiteStore, open_sqlite
from tests.store.store_support import CREATED, SetClock, admitted

T = TypeVar("T")
SESSIONS = ("s1", "s2")


class Write:
    """One append: the events of it, and whether the store said that they are durable."""

    def __init__(self, name: str, *, size: int = 1) -> None:
        self.prompt = name
        self.events = [
            ev.Note(f"{name} begins"),
            admitted(name, "x" * size),
            ev.Note(f"{name} ends"),
        ]
        self.acknowledged = False


class BusyRun:
    """Opens, creates, appends, claims, reads, checkpoints and closes, whatever fails.

    `failed` counts the calls that raised a StoreError; nothing else may come out of a store.
    """

    def __init__(self, path: Path, vfs: str) -> None:
        self.failed = 0
        self.created: set[str] = set()
        self.writes: dict[str, list[Write]] = {session: [] for session in SESSIONS}
        self.token = 0
        self._path = path
        self._vfs = vfs

    async def work(self) -> None:
        """Do the whole run."""
        store = await self._try(self._open()) or await self._try(self._open())
        if store is None:
            return
        try:
            await self._create(store, "s1")
            await self._drain(store, "s1")
            await self._create(store, "s2")
            await self._try(store.sessions())
        finally:
            await store.close()

    def begun(self, session: str) -> None:
        """Note that a session is durable."""
        self.created.add(session)

    def acknowledge(self, write: Write) -> None:
        """Note that a write is durable."""
        write.acknowledged = True

    async def _open(self) -> SQLiteStore:
        return await open_sqlite(self._path, clock=SetClock(), vfs=self._vfs)

    async def _create(self, store: SQLiteStore, session: str) -> None:
        for _ in range(2):
            if session not in self.created:
                try:
                    if await self._try(store.create(session, [CREATED])):
                        self.begun(session)
                except ConcurrencyError:  # what failed before has been written after all
                    self.begun(session)

    async def _drain(self, store: SQLiteStore, session: str) -> None:
        lease = await self._try(store.claim(session, "me")) if session in self.created else None
        if lease is None:
            return
        self.token = lease.token
        await self._append(store, session, "small", lease=lease)
        await self._append(store, session, "large", size=1500)
        await self._together(store, session)
        await self._try(store.events(session))
        await self._append(store, session, "more")
        if not await self._append(store, session, "last", lease=lease, release=True):
            await self._try(store.release(lease))

    async def _together(self, store: SQLiteStore, session: str) -> None:
        before = self.failed
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(self._append, store, session, f"at once {number}")
        self.failed = min(self.failed, before + 1)  # they share one commit

    async def _append(
        self,
        store: SQLiteStore,
        session: str,
        name: str,
        lease: Lease | None = None,
        release: bool = False,
        size: int = 1,
    ) -> bool:
        write = Write(f"{session} {name}", size=size)
        self.writes[session].append(write)
        guard = Guard(token=lease.token) if lease else None
        appended = store.append(
            session, write.events, guard=guard, release=lease if release else None
        )
        if await self._try(appended) is not None:
            self.acknowledge(write)
        return write.acknowledged

    async def _try(self, call: Awaitable[T]) -> T | None:
        try:
            return await call
        except StoreError:
            self.failed += 1
            return None


async def faults_after(
    path: Path,
    created: AbstractSet[str],
    writes: Mapping[str, Sequence[Write]],
    acknowledged: AbstractSet[str],
    vfs: str = "",
) -> list[str]:
    """Open what is left without any fault; return what was lost, halved or made up."""
    try:
        async with await open_sqlite(path, clock=SetClock(), vfs=vfs) as store:
            wrong = list(await store.check())
            there = {row.id for row in await store.sessions()}
            wrong += [f"session {session} is lost" for session in created - there]
            for session in there:
                records = await store.events(session, after=1)
                found = [record.data for record in records]
                wrong += _differences(found, writes[session], acknowledged)
            return wrong
    except StoreError as error:
        return [f"it cannot be read: {error}"]


def _differences(
    found: Sequence[ev.Event], writes: Sequence[Write], acknowledged: AbstractSet[str]
) -> list[str]:
    wrong: list[str] = []
    for write in writes:
        size = len(write.events)
        if found[:size] == write.events:
            found = found[size:]
        elif write.prompt in acknowledged:
            wrong.append(f"{write.prompt} was acknowledged and is lost")
    if found:
        wrong.append(f"{found[:3]} is there and was never written so")
    return wrong
