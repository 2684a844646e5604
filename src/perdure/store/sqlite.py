"""The store in one SQLite file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread

from perdure.clock import Clock, milliseconds
from perdure.context.snapshot import SourceSnapshot
from perdure.errors import StoreDamaged, StoreError
from perdure.history.events import Event, Record
from perdure.store import reads, repair, rows, schema
from perdure.store.contract import (
    Guard,
    Lease,
    PromptRow,
    SessionRow,
    require_beginning,
    require_whole_log,
)
from perdure.store.database import Connection, Database
from perdure.store.lease import Holder
from perdure.store.readers import Readers
from perdure.store.writer import Job, Writer


async def open_sqlite(
    path: str | Path,
    *,
    clock: Clock,
    lease_seconds: float = 10.0,
    busy_timeout: float = 5.0,
    vfs: str = "",
) -> SQLiteStore:
    """Open the store at `path`; create the file, its directory and its tables where needed.

    A drain whose process can no longer be seen is free `lease_seconds` after its last sign of
    life. `busy_timeout` is how long a write waits for another process, in seconds. `vfs` names a
    registered SQLite VFS. Raises StoreTooNew, StoreLocked, StoreReadOnly, StoreFull, StoreDamaged,
    or StoreError for what is no database of Perdure. Being cancelled takes effect only after the
    opening. The store must be closed: use it as an async context manager.
    """
    database = Database(path, busy_timeout=busy_timeout, vfs=vfs)
    await anyio.to_thread.run_sync(database.create)
    now = milliseconds(clock.now())
    holder = Holder(lease_seconds, clock.monotonic)
    writer = Writer(database, lambda it: schema.prepare(it, database, now), holder)
    await writer.start()
    return SQLiteStore(writer, Readers(database), holder, clock)


class SQLiteStore:
    """Keep sessions in one SQLite file; made by `open_sqlite`.

    It may be used from any event loop of this process, and several processes may use one file.
    A method of one session raises SessionNotFound where there is none. Every method may raise
    StoreError and those below it; the store can be used again when the cause is gone.
    """

    def __init__(self, writer: Writer, readers: Readers, holder: Holder, clock: Clock) -> None:
        self._writer = writer
        self._readers = readers
        self._holder = holder
        self._clock = clock

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def create(self, session: str, events: Sequence[Event]) -> Sequence[Record]:
        """Begin a session with its first events, a SessionCreated before all others.

        Raises ConcurrencyError where the id is taken, PromptConflict where a prompt's is, and
        UsageError for another beginning; nothing is written then.
        """
        require_beginning(session, events)
        batch = rows.Batch(session, events, self._now(events))
        return batch.records(await self._writer.run(batch.create))

    async def restore(self, session: str, records: Sequence[Record]) -> None:
        """Begin a session with a whole log that was kept elsewhere, times included.

        `records` have the seqs 1, 2, 3 … and begin with SessionCreated, else UsageError. All of it
        is written or nothing: raises ConcurrencyError where the id is taken and PromptConflict
        where that of one of its prompts is.
        """
        require_whole_log(session, records)
        events, times = [each.data for each in records], [each.time for each in records]
        await self._writer.run(rows.Batch(session, events, times).create)

    async def append(
        self,
        session: str,
        events: Sequence[Event],
        *,
        guard: Guard | None = None,
        release: Lease | None = None,
    ) -> Sequence[Record]:
        """Append events and change the projections, all in one transaction.

        Raises LeaseLost or StaleBoundary where `guard` does not hold, and PromptConflict where a
        prompt id is taken or a prompt is no longer pending; nothing is written then. With
        `release` the lease is given up in the same transaction. Being cancelled does not undo it.
        """
        batch = rows.Batch(session, events, self._now(events), guard, release)

        def operation(connection: Connection) -> int:
            last = batch.append(connection)
            if release is not None:
                self._holder.released(release)
            return last

        return batch.records(await self._writer.run(operation))

    async def events(
        self, session: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Record]:
        """Return the durable events with a seq greater than `after`, in order, `limit` at most.

        Raises StoreDamaged, with the session and the seq, where one of them is not what it was.
        """
        return await self._readers.read(
            lambda it: reads.events(it, session, after=after, limit=limit)
        )

    async def session(self, session: str) -> SessionRow:
        """Return one session's row; its `owner` is empty where that process is known to be gone."""
        return self._readers.look_up(lambda it: reads.session(it, session, self._holder.process))

    async def sessions(self) -> Sequence[SessionRow]:
        """Return all sessions, the one updated last first."""
        return await self._readers.read(lambda it: reads.sessions(it, self._holder.process))

    async def version(self, session: str) -> int:
        """Return the seq of a session's last event.

        Cheap enough to ask often: it is how commits of other processes are noticed. It never
        yields to the event loop.
        """
        return self._readers.look_up(lambda it: reads.version(it, session))

    async def resolve(self, prefix: str) -> str:
        """Return the one id that is `prefix` or begins with it.

        Raises SessionNotFound or AmbiguousId.
        """
        return self._readers.look_up(lambda it: reads.resolve(it, prefix))

    async def prompt(self, prompt: str) -> PromptRow | None:
        """Return what is known of a prompt id, in whichever session; None where it is new."""
        return self._readers.look_up(lambda it: reads.prompt(it, prompt))

    async def snapshot(self, session: str) -> Mapping[str, SourceSnapshot]:
        """Return a session's Context Snapshot: per source, what was told last."""
        return self._readers.look_up(lambda it: reads.snapshot(it, session))

    async def delete(self, session: str) -> Sequence[str]:
        """Remove a session with all that belongs to it, the sessions whose parent it is included.

        Returns the ids of what was removed. Raises LeaseLost, having removed nothing, while one of
        them is drained.
        """

        def operation(connection: Connection) -> list[str]:
            numbers = {session: self._holder.require_free(connection, session)}
            for child in reads.children(connection, session):
                numbers[child] = self._holder.require_free(connection, child)
            for number in numbers.values():
                rows.remove(connection, number)
            return list(numbers)

        return await self._writer.run(operation)

    async def claim(self, session: str, owner: str) -> Lease | None:
        """Take a session's drain and raise its fencing token; None while another owns it.

        It is free when nobody owns it, when the owner's process is known to be gone, or when the
        owner's lease was not renewed for its whole length while this store watched: so ask again
        and again. The lease is renewed by itself until it is released or the store is closed.
        Being cancelled gives a lease back that was taken in the meantime.
        """
        job = Job[Lease | None](lambda it: self._holder.claim(it, session, owner))
        try:
            return await self._writer.finish(job)
        except anyio.get_cancelled_exc_class():
            with suppress(StoreError):  # it is closed, and so has given back everything
                self._writer.put(Job(partial(self._give_back, job), awaited=False))
            raise

    async def release(self, lease: Lease) -> None:
        """Give up a lease; nothing happens where it is already lost."""
        await self._writer.run(lambda it: self._holder.release(it, lease))

    async def check(self) -> Sequence[str]:
        """Return what is wrong with the database, a line each; empty when it is sound.

        Reads everything: the file's own structure, then every event against the projections.
        """
        return await self._readers.read(repair.check)

    async def rebuild(self, session: str | None = None) -> Sequence[str]:
        """Write projections anew from the log, of one session or of all.

        Returns what was wrong and is right now, a line each. A log is never changed. With a
        session whose log is damaged, raises StoreDamaged; among all of them it stays as it is, and
        `check` names it.
        """
        if session is not None:
            number, _ = self._readers.look_up(lambda it: reads.place(it, session))
            return await self._writer.run(lambda it: repair.rebuild(it, number, session))
        lines = await self._writer.run(repair.reindex)
        for number, id_ in await self._readers.read(reads.numbers):
            with suppress(StoreDamaged):
                lines += await self._writer.run(partial(repair.rebuild, number=number, id_=id_))
        lines += await self._writer.run(repair.remove_strays)
        forgotten = await self._writer.run(self._holder.clear_away)
        if forgotten:
            lines.append(f"{forgotten} processes that have ended were still listed")
        return lines

    async def close(self) -> None:
        """Finish what was handed over, release what is held and close; later calls fail.

        Closing twice does no harm, and being cancelled does not stop it.
        """
        with anyio.CancelScope(shield=True):
            await self._readers.close()
            await self._writer.close()

    def _now(self, events: Sequence[Event]) -> list[int]:
        return [milliseconds(self._clock.now())] * len(events)

    def _give_back(self, claimed: Job[Lease | None], connection: Connection) -> None:
        if claimed.error is None and claimed.result is not None:
            self._holder.release(connection, claimed.result)
