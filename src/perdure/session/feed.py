"""Readers in this process: every durable event once and in order, live fragments as they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager

import anyio

from perdure.history.events import LiveRecord, Record

_CAPACITY = 1024


class Reader:
    """What one reader has not read yet; bounded.

    When it is full, records are dropped: durable ones can be read again from the log, and live
    fragments are worth nothing later.
    """

    def __init__(self) -> None:
        self._records: deque[Record | LiveRecord] = deque(maxlen=_CAPACITY)
        self._news = anyio.Event()

    def push(self, records: Iterable[Record | LiveRecord]) -> None:
        """Hand over records and wake the reader; never waits."""
        self._records.extend(records)
        self.wake()

    def wake(self) -> None:
        """Make the reader look again."""
        self._news.set()

    def take(self) -> list[Record | LiveRecord]:
        """Return what has come since the last call; `wait` waits for what comes after it."""
        self._news = anyio.Event()
        taken = list(self._records)
        self._records.clear()
        return taken

    async def wait(self, seconds: float) -> bool:
        """Wait for news since the last `take`, at most so long; return whether it is records."""
        with anyio.move_on_after(seconds):
            await self._news.wait()
        return bool(self._records)


class Feed:
    """Passes what one process writes to the readers in the same process."""

    def __init__(self) -> None:
        self._readers: dict[str, list[Reader]] = {}

    @contextmanager
    def reader(self, session: str) -> Generator[Reader]:
        """Read a session's records from now on, while the context is open."""
        reader = Reader()
        self._readers.setdefault(session, []).append(reader)
        try:
            yield reader
        finally:
            readers = self._readers[session]
            readers.remove(reader)
            if not readers:
                del self._readers[session]

    def is_read(self, session: str) -> bool:
        """Tell whether anybody reads the session in this process."""
        return session in self._readers

    def publish(self, session: str, records: Iterable[Record | LiveRecord]) -> None:
        """Hand records to every reader of the session."""
        readers = self._readers.get(session)
        if readers:
            batch = list(records)
            for reader in readers:
                reader.push(batch)

    def wake(self, session: str) -> None:
        """Make every reader of the session look again, for a change that is no event."""
        for reader in self._readers.get(session, ()):
            reader.wake()
