"""Starts at most one drain a session in this process, and waits for those of others."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import anyio
from anyio.abc import TaskGroup

from perdure.errors import LeaseLost, PerdureError
from perdure.history.state import SessionState, fold
from perdure.session.changes import Changes
from perdure.session.claimed import Decide, write_claimed
from perdure.session.delegation import Delegation
from perdure.session.drain import Equipment, drain
from perdure.session.inbox import has_work, leave_held
from perdure.session.interrupts import ask_owner, prompted_since, until_asked
from perdure.session.leftovers import is_left_to_its_call
from perdure.session.log import caught_up
from perdure.session.owner import owner_is_in_sight
from perdure.session.titles import Titles
from perdure.store.contract import Lease, SessionRow

_log = logging.getLogger("perdure.session")

_FIRST_LOOK = 0.02
_SLOWEST_LOOK = 0.25

_TAKEN = "session %s: another process took over; nothing is lost"

_ANY_STEP = 1 << 30
"""A limit of steps that none reaches: whether a drain would do more is seen when it runs."""


@asynccontextmanager
async def coordinating(equipment: Equipment, group: TaskGroup) -> AsyncGenerator[Coordinator]:
    """Give a Coordinator that leaves to others what was held for it when this is left."""
    coordinator = Coordinator(equipment, group)
    try:
        yield coordinator
    finally:
        with anyio.CancelScope(shield=True):
            await coordinator.let_go()


class _Drain:
    """One drain of a session here, or the wait for its turn.

    `asked` is the seq at which another process asked it to stop, 0 while none did.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.scope = anyio.CancelScope()
        self.settled = anyio.Event()


class _Running:
    """A session that is worked on here: drain after drain, while wakes come.

    `rests` is set while it waits for its turn, and once all is done.
    """

    def __init__(self) -> None:
        self.drain: _Drain | None = None
        self.rests = anyio.Event()
        self.again = True

    def stop(self) -> None:
        """End the drain, or the wait for its turn; what it has begun settles first."""
        # What is admitted from now on is no longer meant: it starts the next drain.
        self.again = False
        if self.drain is not None:
            self.drain.scope.cancel()


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
        self._holding: set[str] = set()
        self._titles = Titles(equipment.store, equipment.feed, group)
        self._delegation = Delegation(equipment.store, equipment.feed, self, equipment.owner)

    def wake(self, session: str) -> None:
        """Make sure that what waits in the session is worked on; returns at once."""
        running = self._running.get(session)
        if running is not None:
            running.again = True
            return
        self._running[session] = _Running()
        self._group.start_soon(self._run, session, name=f"drain {session}")

    async def recover(self) -> list[str]:
        """Wake every session that has work and that nobody drains; return their ids.

        One whose owner cannot be seen from here, as in another container, is waited for: it is
        worked on when that one's lease has run out. A session whose log is damaged is left alone,
        with a warning. A task is left to the call that gave it; it is settled where that call is.
        """
        woken: list[str] = []
        for row in await self._equipment.store.sessions():
            if await self._is_left(row) and not await self._is_of_call(row):
                self.wake(row.id)
                woken.append(row.id)
        return woken

    def holds(self, session: str) -> None:
        """Remember that a Prompt of the session is left to this runtime."""
        self._holding.add(session)

    async def let_go(self) -> None:
        """Leave to others what was held for this runtime, which is about to be closed."""
        equipment = self._equipment
        for session in self._holding:
            changes = Changes(session, equipment.store, equipment.feed)
            with suppress(PerdureError):  # nobody would hear of it
                if (await equipment.store.session(session)).pending:
                    await leave_held(changes, equipment.owner)

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

    def forget(self, session: str) -> None:
        """Forget what is known of an earlier session of that id."""
        self._failures.pop(session, None)
        self._equipment.memory.forget(session)

    async def wait(self, session: str) -> None:
        """Wait until the session is not drained here; cancelling stops only the waiting.

        A wait for its turn, while another process drains it, does not count.
        """
        while (running := self._running.get(session)) is not None:
            await running.rests.wait()
            if self._running.get(session) is running:
                return

    async def interrupt(self, session: str, *, only_here: bool = False) -> bool:
        """Stop the session's drain and return whether there was one. Pending prompts stay.

        A drain here, or its wait for its turn, has ended and is settled when this returns. One of
        another process is asked to end, which is durable then, unless `only_here`.
        """
        running = self._running.get(session)
        if running is None:
            equipment = self._equipment
            return not only_here and await ask_owner(
                equipment.store, equipment.feed, session, equipment.owner
            )
        running.stop()
        if running.drain is not None:
            await running.drain.settled.wait()
        return True

    async def write_alone(self, session: str, decide: Decide) -> bool:
        """Write what is decided from a session's log, unless somebody works on it.

        Returns False, having written nothing, while somebody does.
        """
        drained = self.is_busy(session) and session in self._leases
        lease = None if drained else await self._claim(session)
        if lease is None:
            return False
        try:
            await write_claimed(self._equipment.store, self._equipment.feed, lease, decide)
        except BaseException:
            # A failing store may have kept it from being given up.
            self._leases.setdefault(session, lease)
            raise
        return True

    async def _is_left(self, row: SessionRow) -> bool:
        """Say whether a session has work for this process that nobody does."""
        store, owner = self._equipment.store, self._equipment.owner
        if self.is_busy(row.id) or (row.owner not in {"", owner} and owner_is_in_sight(row.owner)):
            return False
        if row.crashed or row.outcome == "open":
            return True
        if not (row.owner or row.pending or row.outcome == "crashed"):
            return False
        try:
            state = fold(row.id, await store.events(row.id))
        except PerdureError as error:
            _log.warning("session %s cannot be recovered: %s", row.id, error)
            return False
        return has_work(state, owner, _ANY_STEP)

    async def _is_of_call(self, row: SessionRow) -> bool:
        """Say whether a call has to wake the session, or nobody any more."""
        try:
            return await is_left_to_its_call(self._equipment.store, self.write_alone, row)
        except PerdureError as error:
            _log.warning("session %s cannot be recovered: %s", row.id, error)
            return True

    async def _run(self, session: str) -> None:
        running, store = self._running[session], self._equipment.store
        try:
            while running.again:
                running.again = False
                running.drain = drain = _Drain()
                try:
                    with drain.scope:
                        await self._drain(session, running)
                finally:
                    drain.settled.set()
                if drain.asked and await prompted_since(store, session, drain.asked):
                    running.again = True  # a prompt behind the interrupt is not meant by it
        finally:
            del self._running[session]
            running.rests.set()
            self._equipment.feed.wake(session)

    async def _drain(self, session: str, running: _Running) -> None:
        self._failures.pop(session, None)
        try:
            await self._claim_and_drain(session, running)
        except LeaseLost:
            _log.warning(_TAKEN, session)
        except PerdureError as error:
            self._failures[session] = error
        except Exception as error:  # noqa: BLE001 - one session must not end the others
            _log.exception("session %s: the drain failed", session)
            self._failures[session] = PerdureError(
                f"session {session}: internal error ({type(error).__name__}); the prompt is kept"
            )

    async def _claim_and_drain(self, session: str, running: _Running) -> None:
        store, owner = self._equipment.store, self._equipment.owner
        seen = SessionState(session)
        pause = _FIRST_LOOK
        before = await store.version(session)
        while (lease := await self._claim(session)) is None:
            running.rests.set()
            await self._equipment.clock.sleep(pause)
            pause = min(pause * 2, _SLOWEST_LOOK)
            seen = await caught_up(store, seen)
            if not has_work(seen, owner, step_limit=_ANY_STEP):
                return
            before = seen.last_seq
        if running.rests.is_set():
            running.rests = anyio.Event()
        self._leases[session] = lease
        ended = anyio.CancelScope()
        self._group.start_soon(self._listen, running, lease, before, ended, name="listener")
        try:
            await drain(self._equipment, lease, self._titles.begin, self._delegation)
        finally:
            ended.cancel()
        del self._leases[session]

    async def _listen(
        self, running: _Running, lease: Lease, after: int, ended: anyio.CancelScope
    ) -> None:
        """Stop the present drain when another process asks for it, or has taken over."""
        drain = running.drain
        with ended:
            asked = await until_asked(self._equipment.store, lease, after)
            if drain is None or drain.settled.is_set():
                return
            if asked:
                drain.asked = asked
                running.stop()
            else:  # it may commit nothing any more, so its tools had better have no effects either
                _log.warning(_TAKEN, lease.session)
                drain.scope.cancel()

    async def _claim(self, session: str) -> Lease | None:
        # A claim that went through unseen would keep everybody out until it expires.
        store = self._equipment.store
        with anyio.CancelScope(shield=True):
            # One that a failing store kept from being given up would keep ourselves out.
            if (left := self._leases.get(session)) is not None:
                await store.release(left)
                del self._leases[session]
            return await store.claim(session, self._equipment.owner)
