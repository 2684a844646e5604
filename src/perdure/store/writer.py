"""The one thread that writes: whole operations in, shared commits out."""

from __future__ import annotations

import contextlib
import copy
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast

import anyio
import anyio.to_thread
import apsw

from perdure.errors import PerdureError, StoreError
from perdure.store import faults
from perdure.store.database import Connection, Database, Identity
from perdure.store.waiter import new_waiter, wake_all

T = TypeVar("T")

Operation = Callable[[Connection], T]
"""Runs inside the writer's transaction. It raises to refuse, and may run once more after its
transaction was rolled back."""

_BATCH = 256
_LOOK_UP = 1.0
_WAL_BYTES = 4 * 1024 * 1024
_PRAGMAS = (
    # Beside a write-ahead log the same as FULL. A database is born with a rollback journal, and
    # where the removal of that journal is not durable, a power cut rolls everything back with it.
    ("synchronous", "EXTRA"),
    ("fullfsync", 1),
    ("checkpoint_fullfsync", 1),
    ("journal_size_limit", _WAL_BYTES),
)
_PASSING = (apsw.BusyError, apsw.LockedError, apsw.FullError, apsw.ReadOnlyError)
_SHARED = (
    *_PASSING,
    apsw.CantOpenError,
    apsw.CorruptError,
    apsw.IOError,
    apsw.InterruptError,
    apsw.NoMemError,
    apsw.NotADBError,
    apsw.ProtocolError,
)


class Upkeep(Protocol):
    """What the writer does by itself: `run` every `interval` seconds while it is `needed`.

    `recall` comes after a transaction that failed, `finish` before the connection closes for good.
    """

    interval: float

    def needed(self) -> bool: ...
    def run(self, connection: Connection, /) -> None: ...
    def recall(self, connection: Connection, /) -> None: ...
    def finish(self, connection: Connection, /) -> None: ...


class Job(Generic[T]):
    """An operation on its way, and the task that waits for it, if there is one."""

    __slots__ = ("error", "operation", "result", "waiter")

    def __init__(self, operation: Operation[T], *, awaited: bool = True) -> None:
        self.operation = operation
        self.waiter = new_waiter() if awaited else None
        self.result: T | None = None
        self.error: BaseException | None = None


class Writer:
    """Run operations in the order in which they come, many to a commit.

    Operations that wait together (256 at most) share one transaction and one sync to disk; each is
    told only after that commit. One that is refused fails alone. A fault of the database fails the
    whole transaction and nothing of it is tried again, with one exception: after damaged content
    they run once more one by one, so that the damage blocks the session only that has it.

    `prepare` runs on every new connection, outside of a transaction.
    """

    def __init__(self, database: Database, prepare: Operation[None], upkeep: Upkeep) -> None:
        self._database = database
        self._prepare = prepare
        self._upkeep = upkeep
        self._due = 0.0
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._closed = False
        self._failed = False
        self._connection: Connection | None = None
        self._identity: Identity | None = None
        self._wal_pages = 0
        self._most_pages = 0
        self._thread = threading.Thread(target=self._serve, name="perdure-store-writer")

    async def start(self) -> None:
        """Start the thread and open the database; the thread is gone again where that fails."""
        self._thread.start()
        with anyio.CancelScope(shield=True):
            try:
                await self.run(lambda _: None)
            except BaseException:
                await self.close()
                raise

    async def run(self, operation: Operation[T]) -> T:
        """Run an operation and return its result once it is durable.

        Cancelling the caller does not take the operation back.
        """
        return await self.finish(Job(operation))

    async def finish(self, job: Job[T]) -> T:
        """Hand a job over and wait, as `run` does."""
        self.put(job)
        if job.waiter is not None:
            await job.waiter.wait()
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    def put(self, job: Job[Any]) -> None:
        """Hand a job over without waiting for it."""
        with self._gate:
            if self._closed:
                raise StoreError(f"the store {self._database.path} is closed; open it again")
            self._queue.put(job)

    async def close(self) -> None:
        """Finish all that was handed over, then close the connection and end the thread."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._thread.join)

    def _serve(self) -> None:
        going = True
        while going:
            batch, going = self._gather()
            if self._upkeep.needed() and time.monotonic() >= self._due:
                self._due = time.monotonic() + self._upkeep.interval
                batch.append(Job(self._upkeep.run, awaited=False))
            if batch:
                self._commit(batch)
                wake_all(job.waiter for job in batch if job.waiter is not None)
                self._checkpoint()
        if self._connection is not None:
            self._commit([Job(self._upkeep.finish, awaited=False)])
        self._disconnect()

    def _gather(self) -> tuple[list[Job[Any]], bool]:
        batch: list[Job[Any]] = []
        try:
            job = self._queue.get(timeout=min(_LOOK_UP, self._upkeep.interval / 2))
            while job is not None:
                batch.append(job)
                if len(batch) == _BATCH:
                    return batch, True
                job = self._queue.get_nowait()
        except queue.Empty:
            # A program that ends without closing must not wait for this thread for ever.
            return batch, threading.main_thread().is_alive()
        return batch, False

    def _commit(self, batch: Sequence[Job[Any]]) -> None:
        try:
            self._fill(batch)
        except apsw.CorruptError as error:
            self._abandon(batch, error)
            if len(batch) > 1:
                for job in batch:
                    self._commit([job])
        except Exception as error:  # noqa: BLE001 whoever waits must be told, whatever it is
            self._abandon(batch, error)
        else:
            self._seal(batch)

    def _fill(self, batch: Sequence[Job[Any]]) -> None:
        connection = self._connection or self._connect()
        connection.execute("BEGIN IMMEDIATE")
        if self._failed:
            self._upkeep.recall(connection)
            self._failed = False
        for job in batch:
            job.error = None
            connection.execute("SAVEPOINT operation")
            try:
                job.result = job.operation(connection)
            except _SHARED:
                raise
            except Exception as error:  # noqa: BLE001 it is raised to the caller instead
                connection.execute("ROLLBACK TO operation")
                job.error = faults.translate(error, self._database.path)
            connection.execute("RELEASE operation")

    def _seal(self, batch: Sequence[Job[Any]]) -> None:
        try:
            cast("Connection", self._connection).execute("COMMIT")
            self._require_same_files()
        except Exception as error:  # noqa: BLE001 as above
            self._abandon(batch, error)

    def _require_same_files(self) -> None:
        if self._database.identity() != self._identity:
            raise faults.vanished(self._database.path)

    def _abandon(self, batch: Sequence[Job[Any]], error: Exception) -> None:
        self._failed = True
        connection = self._connection
        code = connection.system_errno if connection is not None else 0
        for job in batch:
            # A copy for each: an exception collects a traceback wherever it is raised.
            each = copy.copy(error) if isinstance(error, PerdureError) else error
            job.error = faults.translate(each, self._database.path, code)
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        # After a failed sync the system may have dropped what was to be written, so what this
        # connection believes to be on disk cannot be trusted any more.
        if isinstance(error, apsw.Error) and not isinstance(error, _PASSING):
            self._disconnect()

    def _connect(self) -> Connection:
        connection = self._database.connect()
        try:
            for name, value in _PRAGMAS:
                connection.pragma(name, value)
            self._prepare(connection)
            if self._identity is not None:
                _empty_log(connection)
            self._recognize()
        except BaseException:
            with contextlib.suppress(apsw.Error):
                connection.close()
            raise
        connection.set_wal_hook(self._note_pages)
        self._most_pages = _WAL_BYTES // connection.pragma("page_size")
        self._connection = connection
        return connection

    def _recognize(self) -> None:
        identity = self._database.identity()
        if identity is None or (self._identity and identity[0] != self._identity[0]):
            raise faults.vanished(self._database.path)
        self._identity = identity

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                connection.close()

    def _note_pages(self, _connection: Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        # Done after the callers are told, so none of them waits for it.
        if self._connection is None or self._wal_pages < self._most_pages:
            return
        try:
            self._connection.wal_checkpoint()
        except _PASSING:
            pass
        except apsw.Error:
            self._disconnect()


def _empty_log(connection: Connection) -> None:
    # After a fault the write-ahead log may hold what the system took for written and dropped, and
    # a later write behind such a gap would be lost with it. In the file itself it is safe.
    with contextlib.suppress(*_PASSING):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
