"""How long what a plugin registered can be used, and what happens at its end."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable

import anyio

from perdure.plugins.failures import reason

_log = logging.getLogger("perdure.plugins")

Callback = Callable[[], Awaitable[None] | None]
"""Let go of something; sync or async."""

CLOSING = 5.0
"""Seconds that one async callback may take."""


class Lifetime:
    """Runs a plugin's closing callbacks once: when it has ended and nobody holds it any more."""

    def __init__(self, plugin: str) -> None:
        self.ended = False
        self._plugin = plugin
        self._callbacks: list[Callback] = []
        self._holders = 0

    def on_close(self, callback: Callback) -> None:
        """Call this at the end, before what was given earlier."""
        self._callbacks.append(callback)

    def hold(self) -> None:
        """Put the end off until `release`; each hold counts."""
        self._holders += 1

    async def release(self) -> None:
        """Take one hold back; run the callbacks if the end waited for it."""
        self._holders -= 1
        await self._close_if_free()

    async def end(self) -> None:
        """End it. The callbacks run now, or when the last holder lets go."""
        self.ended = True
        await self._close_if_free()

    async def close(self) -> None:
        """End it and run the callbacks now, whoever holds it."""
        self.ended = True
        # A cancelled caller must not leave half of what is to be let go.
        with anyio.CancelScope(shield=True):
            while self._callbacks:
                await self._call(self._callbacks.pop())

    async def _close_if_free(self) -> None:
        if self.ended and not self._holders:
            await self.close()

    async def _call(self, callback: Callback) -> None:
        problem = await contained(callback, CLOSING)
        if problem:
            _log.warning("plugin %s: a closing callback failed: %s", self._plugin, problem)


async def contained(call: Callable[[], object], seconds: float) -> str | None:
    """Call a plugin's code, await what it returns if that can be, and say what went wrong.

    Only KeyboardInterrupt and a cancellation from outside get out. Async code has so many seconds;
    sync code cannot be stopped.
    """
    ended: list[str | None] = []

    async def run() -> None:
        try:
            returned = call()
            if inspect.isawaitable(returned):
                await returned
            ended.append(None)
        except (anyio.get_cancelled_exc_class(), KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - a plugin may raise anything, SystemExit too
            ended.append(reason(error))

    with anyio.move_on_after(seconds) as time:
        # In a task of its own, code that only cancels itself does not look like a cancelled caller.
        async with anyio.create_task_group() as group:
            group.start_soon(run)
    if ended:
        return ended[0]
    return f"it took longer than {seconds:g} s" if time.cancelled_caught else "it cancelled itself"
