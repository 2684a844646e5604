"""How long a provider may be waited for: between two useful events, and in all."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

from perdure.background import background
from perdure.errors import SilentStream, SlowStream
from perdure.models.failures import Peer

GIVEN_UP = (SilentStream, SlowStream)
"""What is raised when the patience is at its end."""

_LEAST = 0.01
"""Seconds between two looks at a wait that has not begun yet."""

Result = TypeVar("Result")


class Patience:
    """Bound the waiting for one answer; only time spent in `wait` and `wait_watched` counts.

    `silence` and `whole` are seconds. SilentStream or SlowStream is raised when they are over.
    """

    def __init__(self, peer: Peer, silence: float, whole: float = math.inf) -> None:
        self._peer = peer
        self._silence = silence
        self._whole = whole
        self._silence_left = silence
        self._left = whole
        self._progress = 0
        self._since: float | None = None

    def heard(self, progress: int) -> None:
        """Start again where the answer has come forward; pings and comments do not count."""
        if progress != self._progress:
            self._progress = progress
            self._silence_left = self._silence

    async def wait(self, awaitable: Awaitable[Result]) -> Result:
        """Wait; raise when the time is up."""
        began = time.monotonic()
        with anyio.move_on_after(max(self._time_left(), 0.0)):
            result = await awaitable
            self._count(began)
            return result
        raise self._exhausted()

    async def wait_watched(self, awaitable: Awaitable[Result]) -> Result:
        """Wait inside of `watch`, which ends it when the time is up.

        A timer armed for each token, and hardly ever needed, costs more than reading the token.
        """
        self._since = began = time.monotonic()
        try:
            return await awaitable
        finally:
            self._since = None
            self._count(began)

    @asynccontextmanager
    async def watch(self) -> AsyncGenerator[None]:
        """End the block, and raise, when a wait in it has lasted too long."""
        ended_by_itself = False
        async with background() as group:
            group.start_soon(self._watch, group.cancel_scope)
            yield
            ended_by_itself = True
        if not ended_by_itself:
            raise self._exhausted()

    async def _watch(self, scope: anyio.CancelScope) -> None:
        while True:
            left = self._time_left()
            if left <= 0 and self._since is not None:
                scope.cancel()
                return
            await anyio.sleep(max(left, _LEAST))

    def _time_left(self) -> float:
        left = min(self._silence_left, self._left)
        return left if self._since is None else left - (time.monotonic() - self._since)

    def _count(self, began: float) -> None:
        waited = time.monotonic() - began
        self._silence_left -= waited
        self._left -= waited

    def _exhausted(self) -> SilentStream | SlowStream:
        if self._left < self._silence_left:
            return self._peer.slow(self._whole)
        return self._peer.silent(self._silence)
