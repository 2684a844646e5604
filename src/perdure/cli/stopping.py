"""Ctrl-C and a request to terminate, while a prompt is being answered."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from perdure.session.handle import Session

_GRACE = 0.5
"""Seconds in which what was settled by an interrupt is still shown."""


class Stop:
    """Turns the first signal into an interrupt of the session, and the second into the end.

    `code` is the exit code that a signal calls for, 0 while there was none.
    """

    def __init__(self) -> None:
        self.code = 0
        self._reading = anyio.CancelScope()

    @contextmanager
    def reading(self) -> Generator[None]:
        """Read a session's records within; it ends early when the session was interrupted."""
        with self._reading:
            yield

    async def watch(
        self, session: Session, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
    ) -> None:
        """Wait for signals until cancelled; interrupt the session at the first."""
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async with anyio.create_task_group() as group:
                async for number in signals:
                    if self.code:
                        # What is still open is settled by the next run, from the log.
                        os._exit(self.code)
                    self.code = 128 + number
                    group.start_soon(self._interrupt, session)

    async def _interrupt(self, session: Session) -> None:
        # Where this prompt only waits for its turn, the work of others goes on.
        await session.interrupt(only_here=True)
        # Another process may still work on the session, and nothing more of this prompt will come.
        self._reading.deadline = anyio.current_time() + _GRACE
