"""One task that waits for another thread, on any event loop that anyio knows."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import anyio
import anyio.lowlevel

Post = Callable[..., object]
"""Runs a function soon in the thread of one event loop; equal for equal loops."""


class Waiter(Protocol):
    """Belongs to the task that made it; `wake` runs in that task's event loop."""

    post: Post

    async def wait(self) -> None: ...
    def wake(self) -> None: ...


def new_waiter() -> Waiter:
    """Return a waiter for the calling task."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return _Event()
    return _Future(loop)


def wake_all(waiters: Iterable[Waiter]) -> None:
    """Wake tasks from any thread, with one message to each event loop."""
    homes: dict[Post, list[Waiter]] = {}
    for waiter in waiters:
        homes.setdefault(waiter.post, []).append(waiter)
    for post, group in homes.items():
        with contextlib.suppress(RuntimeError):  # that loop has ended, and nobody waits there
            post(_wake, group)


class _Future:
    """For asyncio, because its own future costs a third of what an anyio.Event does."""

    __slots__ = ("_future", "post")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.post: Post = loop.call_soon_threadsafe
        self._future: asyncio.Future[None] = loop.create_future()

    async def wait(self) -> None:
        await self._future

    def wake(self) -> None:
        if not self._future.done():  # it is, when the task was cancelled
            self._future.set_result(None)


class _Event:
    __slots__ = ("_event", "post")

    def __init__(self) -> None:
        token: Any = anyio.lowlevel.current_token().native_token
        self.post: Post = token.run_sync_soon
        self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()

    def wake(self) -> None:
        self._event.set()


def _wake(waiters: Iterable[Waiter]) -> None:
    for waiter in waiters:
        waiter.wake()
