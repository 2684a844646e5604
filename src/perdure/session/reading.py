"""Reading a session: every durable event after a cursor once and in order, then what comes live."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from perdure.history import events as ev
from perdure.history.content import ToolCall
from perdure.session.feed import Feed
from perdure.session.workers import Workers
from perdure.store.contract import Store

_PAGE = 1000
"""How many records are read from the log at once: whoever reads slowly holds no more of them."""

AnyRecord = ev.Record | ev.LiveRecord


class EventReader:
    """Reads one session for one caller; closing the iteration ends it."""

    def __init__(self, session: str, store: Store, feed: Feed, workers: Workers) -> None:
        self._session = session
        self._store = store
        self._feed = feed
        self._workers = workers

    async def follow(
        self, after: int, *, until_idle: bool, live: bool = True
    ) -> AsyncGenerator[AnyRecord]:
        """Yield durable records with a seq above `after`, and live ones as they come if wanted.

        With `until_idle` it ends when all is read and nobody drains the session; a failure that
        kept the last drain from starting a step is raised then, since no event tells it.
        """
        with self._feed.reader(self._session, live=live) as reader:
            handed = False
            while True:
                taken = reader.take()
                # Whether it is idle is asked before reading: what comes between is then still read.
                idle = until_idle and not handed and await self._workers.is_idle(self._session)
                records = taken if handed else await self._logged(after)
                for record in records:
                    if record.seq is not None and record.seq != after + 1:
                        continue
                    after = record.seq or after
                    yield record
                if not handed and len(records) == _PAGE:
                    continue
                busy = self._workers.is_busy(self._session)
                if handed and (_lags(taken, after) or (until_idle and not busy)):
                    handed = False
                    continue
                if idle:
                    self._raise_failure()
                    return
                handed = await reader.wait()

    async def of_prompt(self, prompt: str, after: int) -> AsyncGenerator[AnyRecord]:
        """Yield what happens from the promotion of a prompt to its settlement."""
        scope = _PromptScope(prompt)
        async with aclosing(self.follow(after, until_idle=True)) as records:
            async for record in records:
                if scope.holds(record):
                    yield record
                if scope.over:
                    return

    async def _logged(self, after: int) -> list[AnyRecord]:
        if await self._store.version(self._session) <= after:
            return []  # reading takes a thread, and there is often nothing to read
        return list(await self._store.events(self._session, after=after, limit=_PAGE))

    def _raise_failure(self) -> None:
        failure = self._workers.failure(self._session)
        if failure is not None:
            raise failure


def _lags(taken: list[AnyRecord], after: int) -> bool:
    """Say whether records beyond the cursor were handed over that do not follow it."""
    return any(record.seq is not None and record.seq > after for record in taken)


class _PromptScope:
    """Tells which records belong to one prompt's answer."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._open = False
        self._calls = False
        self.over = False

    def holds(self, record: AnyRecord) -> bool:
        """Take the next record; say whether it belongs to the prompt."""
        match record.data:
            case ev.PromptPromoted(prompt):
                self._open = self._open or prompt == self._prompt
            case ev.PromptWithdrawn(prompt) if prompt == self._prompt:
                self.over = True
                return True
            case ev.AssistantMessage():
                self._calls = any(isinstance(part, ToolCall) for part in record.data.parts)
            case ev.DrainInterrupted():
                self.over = self._open
            case ev.StepFinished():
                self.over = self._open and self._settles(record.data)
            case _:
                pass
        return self._open

    def _settles(self, event: ev.StepFinished) -> bool:
        if event.outcome == "completed":
            return not self._calls
        return event.outcome not in {"crashed", "overflowed"}  # both are done once more
