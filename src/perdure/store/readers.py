"""A few connections that only read, each for one short snapshot at a time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator
from typing import TypeVar

import anyio
import anyio.to_thread
import apsw

from perdure.errors import StoreError
from perdure.store import faults
from perdure.store.database import Connection, Database

T = TypeVar("T")

Query = Callable[[Connection], T]
"""Reads inside one snapshot and keeps nothing of the connection."""

_CONNECTIONS = 3


class Readers:
    """Run queries, each in one snapshot of the database.

    A query that may take long runs in a thread; one that looks up a few rows runs where it is
    called, since a thread would take ten times as long as the query.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._at_once = _Lane(database)
        self._lanes = [_Lane(database) for _ in range(_CONNECTIONS)]
        self._free = list(self._lanes)
        self._room = threading.Semaphore(_CONNECTIONS)

    def look_up(self, query: Query[T]) -> T:
        """Run a query of a few rows in the calling thread."""
        return self._at_once.read(query)

    async def read(self, query: Query[T]) -> T:
        """Run a query in a thread; a cancelled caller waits until it has ended."""
        return await anyio.to_thread.run_sync(self._read, query)

    async def close(self) -> None:
        """Close all connections, each after the query that it runs."""
        with anyio.CancelScope(shield=True):
            for lane in (self._at_once, *self._lanes):
                await anyio.to_thread.run_sync(lane.close)

    def _read(self, query: Query[T]) -> T:
        with self._room:
            lane = self._free.pop()
            try:
                return lane.read(query)
            finally:
                self._free.append(lane)


class _Lane:
    """One connection, opened when it is first needed, and again after a fault."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    def read(self, query: Query[T]) -> T:
        with self._lock:
            if self._closed:
                raise StoreError(f"the store {self._database.path} is closed; open it again")
            try:
                connection = self._connection or self._connect()
                with _snapshot(connection):
                    return query(connection)
            except (apsw.Error, UnicodeDecodeError) as error:
                self._disconnect()
                raise faults.translate(error, self._database.path) from error

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._disconnect()

    def _connect(self) -> Connection:
        connection = self._database.connect()
        connection.pragma("query_only", 1)
        self._connection = connection
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(apsw.Error):
                connection.close()


@contextlib.contextmanager
def _snapshot(connection: Connection) -> Generator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
