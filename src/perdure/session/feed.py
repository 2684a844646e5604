"""Readers in this process: every durable event once and in order, live fragments as they come."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import contextmanager

import anyio

from perdure.history.events import LiveRecord, Record

_CAPACITY = 1024

_MANY = _CAPACITY // 4
"""How many records wake their reader whenever they come, long before any would be dropped."""

_LOOK_AGAIN = 0.1
"""Seconds between looks at what other processes wrote; what this one writes comes at once."""

_TOGETHER = 0.01
"""Live fragments that come within so many seconds of one another wake their reader once: more
often than a screen can show them, and a wake costs as much as reading a token does."""


class Reader:
    """What one reader has not read yet; bounded.

    When it is full, records are dropped: durable ones can be read again from the log, and live
    fragments are worth nothing later. One that is not `live` gets durable ones only.
    """

    def __init__(self, live: bool = True) -> None:
        self.live = live
        self._woken = -math.inf
        self._records: deque[Record | LiveRecord] = deque(maxlen=_CAPACITY)
        self._news = anyio.Event()

    def push(self, records: Iterable[Record | LiveRecord]) -> None:
        """Hand over records and wake the reader; never waits."""
        self._records.extend(records)
        self.wake()

    def offer(self, fragment: LiveRecord) -> bool:
        """Hand over a live fragment; return whether the reader still has to be woken for it."""
        self._records.append(fragment)
        recent = abs(fragment.time - self._woken) < _TOGETHER * 1000
        if recent and len(self._records) < _MANY:
            return True
        self._woken = fragment.time
        self.wake()
        return False

    def wake(self) -> None:
        """Make the reader look again."""
        self._news.set()

    def take(self) -> list[Record | LiveRecord]:
        """Return what has come since the last call; `wait` waits for what comes after it."""
        self._news = anyio.Event()
        taken = list(self._records)
        self._records.clear()
        return taken

    async def wait(self) -> bool:
        """Wait for news since the last `take`, or to be woken; return whether it is records."""
        await self._news.wait()
        return bool(self._records)


class Feed:
    """Passes what one process writes to the readers in the same process.

    What other processes write is seen only by looking: `tick` makes all readers do so.
    """

    def __init__(self) -> None:
        self._readers: dict[str, list[Reader]] = {}
        self._read = anyio.Event()
        self._waiting: set[Reader] = set()
        self._offered = anyio.Event()

    async def run(self) -> None:
        """Wake readers when it is time, until cancelled.

        One clock for all of them: a timer armed by each reader for each token costs as much as
        reading the token does.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._tick)
            group.start_soon(self._pass_on)

    async def _tick(self) -> None:
        """Make every reader look again, time after time."""
        while True:
            if not self._readers:
                self._read = anyio.Event()
                await self._read.wait()
            await anyio.sleep(_LOOK_AGAIN)
            for readers in self._readers.values():
                for reader in readers:
                    reader.wake()

    async def _pass_on(self) -> None:
        """Wake the readers to whom more fragments came than they are woken for."""
        while True:
            await self._offered.wait()
            await anyio.sleep(_TOGETHER)
            self._offered = anyio.Event()
            while self._waiting:
                self._waiting.pop().wake()

    @contextmanager
    def reader(self, session: str, *, live: bool = True) -> Generator[Reader]:
        """Read a session's records from now on, while the context is open."""
        reader = Reader(live)
        self._readers.setdefault(session, []).append(reader)
        self._read.set()
        try:
            yield reader
        finally:
            readers = self._readers[session]
            readers.remove(reader)
            if not readers:
                del self._readers[session]

    def is_live(self, session: str) -> bool:
        """Tell whether anybody in this process reads the session's live fragments."""
        return any(reader.live for reader in self._readers.get(session, ()))

    def publish(self, session: str, records: Iterable[Record]) -> None:
        """Hand durable records to every reader of the session."""
        batch = list(records)
        for reader in self._readers.get(session, ()):
            reader.push(batch)

    def show(self, session: str, record: LiveRecord) -> None:
        """Hand a live fragment to the readers of the session that want them."""
        for reader in self._readers.get(session, ()):
            if reader.live and reader.offer(record):
                self._waiting.add(reader)
                self._offered.set()

    def wake(self, session: str) -> None:
        """Make every reader of the session look again, for a change that is no event."""
        for reader in self._readers.get(session, ()):
            reader.wake()
