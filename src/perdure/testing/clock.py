"""Time and ids that a test decides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio.lowlevel


class FakeClock:
    """A clock that moves only when it is told to.

    `sleep` returns after one turn of the event loop, with the time moved on: tests of waiting do
    not wait. What was slept is in `slept`. A loop that sleeps for ever never pauses on this clock.
    """

    def __init__(self, now: datetime = datetime(2026, 1, 1, 12, tzinfo=UTC)) -> None:
        if now.tzinfo is None:
            raise ValueError("a clock needs a time zone: datetime(..., tzinfo=UTC)")
        self._now = now
        self._monotonic = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        deadline = self._monotonic + seconds
        self.slept.append(seconds)
        await anyio.lowlevel.checkpoint()
        # Those who slept meanwhile may have moved the time on already.
        self.advance(max(0.0, deadline - self._monotonic))

    def advance(self, seconds: float) -> None:
        """Let time pass: both the wall clock and the monotonic one."""
        if seconds < 0:
            raise ValueError("time only advances; to turn the wall clock back, use set()")
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def set(self, now: datetime) -> None:
        """Turn the wall clock, forward or back, as a date change or a correction does."""
        if now.tzinfo is None:
            raise ValueError("a clock needs a time zone: datetime(..., tzinfo=UTC)")
        self._now = now


class SequentialIds:
    """Ids that count: `id000001`, `id000002` and so on."""

    def __init__(self, prefix: str = "id") -> None:
        if not all(character in "0123456789abcdefghijklmnopqrstuvwxyz" for character in prefix):
            raise ValueError("an id has lower-case letters and digits only")
        self._prefix = prefix
        self._count = 0

    def new(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:06}"
