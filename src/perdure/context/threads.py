"""Call sync loaders in threads.

Python cannot stop a thread, so a call that hangs is given up: its thread goes on, and until it
returns the loader is not called again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import anyio
from anyio import from_thread, lowlevel

PATIENCE = 0.005
"""How many seconds loaders wait for one another before each gets a thread of its own."""


class Call:
    """One call of a sync loader. `given_up` lists the loader's calls that nobody waits for."""

    def __init__(self, load: Callable[[], Any], given_up: list[Call]) -> None:
        self.lane: Lane | None = None
        self.returned = False
        self._load = load
        self._given_up = given_up
        self._result: Any = None
        self._error: BaseException | None = None

    def make(self) -> None:
        """Call the loader in the current thread and keep what it returns or raises."""
        try:
            self._result = self._load()
        except BaseException as error:  # noqa: BLE001 - raised again where the result is awaited
            self._error = error
        self.returned = True

    def fail(self, error: BaseException) -> None:
        """Let the call end with an error without having made it."""
        self._error = error
        self.returned = True

    async def result(self) -> Any:
        """Wait for what the loader returns or raises. Cancelling gives the call up."""
        try:
            if self.lane and not self.returned:
                await self.lane.done.wait()
        finally:
            self.give_up()
        if self._error is not None:
            raise self._error
        return self._result

    def give_up(self) -> None:
        """Note that nobody waits for the call any more, if it is still running."""
        if self.lane and not self.returned:
            self.lane.abandoned = True
            self._given_up.append(self)


class Lane:
    """A thread that makes calls one after another; `done` is set once, after the last."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.done = anyio.Event()
        self.abandoned = False
        self._waiting = deque(calls)
        self._loop = lowlevel.current_token()
        for call in calls:
            call.lane = self

    def start(self) -> None:
        # A thread of anyio's pool would keep the interpreter from exiting while a loader hangs.
        thread = threading.Thread(target=self._run, name="perdure loader", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system gives no more threads
            for call in self.withdraw():
                call.fail(error)

    def withdraw(self) -> list[Call]:
        """Take the calls back that were not made yet."""
        calls: list[Call] = []
        while call := self._next():
            call.lane = None
            calls.append(call)
        return calls

    def _next(self) -> Call | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def _run(self) -> None:
        while call := self._next():
            call.make()
        if not self.abandoned:
            with suppress(RuntimeError):  # the event loop has ended: nobody waits
                from_thread.run_sync(self.done.set, token=self._loop)


def is_hung(given_up: list[Call]) -> bool:
    """Forget the calls that have returned meanwhile, and say whether any is left."""
    given_up[:] = [call for call in given_up if not call.returned]
    return bool(given_up)


async def start(calls: Sequence[Call]) -> None:
    """Start all calls; return when they have returned, or soon after.

    A thread costs more than most loaders, so one thread makes the calls in turn. As soon as that
    takes longer than `PATIENCE`, each call not made yet gets a thread of its own. Cancelling gives
    up the call that is running and makes no other.
    """
    if not calls:
        return
    lane = Lane(calls)
    lane.start()
    try:
        with anyio.move_on_after(PATIENCE):
            await lane.done.wait()
    except BaseException:
        lane.withdraw()
        for call in calls:
            call.give_up()
        raise
    for call in lane.withdraw():
        Lane([call]).start()
