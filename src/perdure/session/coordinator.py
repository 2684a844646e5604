"""Starts at most one drain a session in this process, and waits for those of others."""

from __future__ import annotations

import logging

import anyio
from anyio.abc import TaskGroup

from perdure.errors import LeaseLost, PerdureError
from perdure.history.state import SessionState
from perdure.session.drain import Equipment, drain
from perdure.session.inbox import has_work
from perdure.session.log import caught_up
from perdure.store.contract import Lease

_log = logging.getLogger("perdure.session")

_FIRST_LOOK = 0.02
_SLOWEST_LOOK = 0.25


class _Drain:
    """One drain of a session here, or the wait for its turn."""

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self.settled = anyio.Event()


class _Running:
    """A session that is worked on here: drain after drain, while wakes come."""

    def __init__(self) -> None:
        self.drain: _Drain | None = None
        self.done = anyio.Event()
        self.again = True


class Coordinator:
    """Turns wakes into drains. Wakes coalesce: many of them start one drain.

    `failure` keeps what ended a session's last drain here before a step could start; there is no
    event that tells it.
    """

    def __init__(self, equipment: Equipment, group: TaskGroup) -> None:
        self._equipment = equipment
        self._group = group
        self._running: dict[str, _Running] = {}
        self._failures: dict[str, PerdureError] = {}
        self._leases: dict[str, Lease] = {}

    def wake(self, session: str) -> None:
        """Make sure that what waits in the session is worked on; returns at once."""
        running = self._running.get(session)
        if running is not None:
            running.again = True
            return
        self._running[session] = _Running()
        self._group.start_soon(self._run, session, name=f"drain {session}")

    def is_busy(self, session: str) -> bool:
        """Say whether the session is being drained here, or is about to be."""
        return session in self._running

    async def is_idle(self, session: str) -> bool:
        """Say whether nobody works on the session, neither here nor in another process."""
        if self.is_busy(session):
            return False
        # A lease of our own is one that a full disk kept from being given up.
        owner = (await self._equipment.store.session(session)).owner
        return owner in {"", self._equipment.owner}

    def failure(self, session: str) -> PerdureError | None:
        """Return what kept the session's last drain here from starting a step."""
        return self._failures.get(session)

    async def wait(self, session: str) -> None:
        """Wait until the session is not drained here; cancelling stops only the waiting."""
        while (running := self._running.get(session)) is not None:
            await running.done.wait()

    async def interrupt(self, session: str) -> bool:
        """Stop the session's drain here and wait until what ran is settled.

        Returns False, having done nothing, where no drain runs here. Pending prompts stay.
        """
        running = self._running.get(session)
        if running is None:
            return False
        # What is admitted from now on is no longer meant: it starts the next drain.
        running.again = False
        if running.drain is not None:
            drain = running.drain
            drain.scope.cancel()
            await drain.settled.wait()
        return True

    async def _run(self, session: str) -> None:
        running = self._running[session]
        try:
            while running.again:
                running.again = False
                running.drain = drain = _Drain()
                try:
                    with drain.scope:
                        await self._drain(session)
                finally:
                    drain.settled.set()
        finally:
            del self._running[session]
            running.done.set()
            self._equipment.feed.wake(session)

    async def _drain(self, session: str) -> None:
        self._failures.pop(session, None)
        try:
            await self._claim_and_drain(session)
        except LeaseLost:
            _log.warning("session %s: another process took over; nothing is lost", session)
        except PerdureError as error:
            self._failures[session] = error
        except Exception as error:  # noqa: BLE001 - one session must not end the others
            _log.exception("session %s: the drain failed", session)
            self._failures[session] = PerdureError(
                f"session {session}: internal error ({type(error).__name__}); the prompt is kept"
            )

    async def _claim_and_drain(self, session: str) -> None:
        seen = SessionState(session)
        pause = _FIRST_LOOK
        while (lease := await self._claim(session)) is None:
            await self._equipment.clock.sleep(pause)
            pause = min(pause * 2, _SLOWEST_LOOK)
            seen = await caught_up(self._equipment.store, seen)
            if not has_work(seen, self._equipment.owner, step_limit=1 << 30):
                return
        self._leases[session] = lease
        await drain(self._equipment, lease)
        del self._leases[session]

    async def _claim(self, session: str) -> Lease | None:
        # A claim that went through unseen would keep everybody out until it expires.
        store = self._equipment.store
        with anyio.CancelScope(shield=True):
            # One that a failing store kept from being given up would keep ourselves out.
            if (left := self._leases.get(session)) is not None:
                await store.release(left)
                del self._leases[session]
            return await store.claim(session, self._equipment.owner)
