"""One run of a session, from wake until idle, in one process."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import msgspec

from perdure.clock import Clock
from perdure.errors import LeaseLost, StaleBoundary
from perdure.history.events import DrainInterrupted
from perdure.history.state import SessionState
from perdure.session.attempts import Attempts, RetryPolicy
from perdure.session.boundary import Boundary, Crossed
from perdure.session.compaction import Compactor, crashed, interrupted
from perdure.session.delegation import Delegation
from perdure.session.feed import Feed
from perdure.session.inbox import choose
from perdure.session.log import SessionLog
from perdure.session.memory import Memory
from perdure.session.recovery import abandon, recover
from perdure.session.requests import Requests
from perdure.session.step import Step
from perdure.session.workplace import Workplaces
from perdure.store.contract import Lease, Store

_SETTLING = 10.0
_TRIES = 20


class Equipment(msgspec.Struct, frozen=True):
    """What every drain of a runtime works with."""

    store: Store
    feed: Feed
    clock: Clock
    owner: str
    workplaces: Workplaces
    memory: Memory
    retry: RetryPolicy


Begun = Callable[[SessionState, Crossed], None]
"""What is told that a drain has begun its first step; it returns at once."""


async def drain(equipment: Equipment, lease: Lease, begun: Begun, delegation: Delegation) -> None:
    """Work on a session until nothing is left to do, then give up the lease.

    Settles first what an earlier drain left open. Cancelling it is an interrupt: what runs is
    settled, pending prompts stay. Raises what keeps a boundary from being crossed
    (configuration, store); a step that fails is a settlement in the log and no exception.
    """
    remembered = equipment.memory.take(lease)
    log = SessionLog(equipment.store, equipment.feed, equipment.clock, lease, remembered.state)
    released = False
    try:
        await log.catch_up()
        remembered.state = log.state
        with equipment.workplaces.telemetry.drain(lease.session) as span:
            released = await _Work(equipment, log, Requests(remembered), begun, delegation).run()
            span.ended(log.state)
        equipment.memory.keep(remembered)
    except LeaseLost:
        released = True
        raise
    finally:
        if not released:
            with anyio.CancelScope(shield=True):
                await equipment.store.release(lease)


class _Work:
    """The steps of one drain."""

    def __init__(
        self,
        equipment: Equipment,
        log: SessionLog,
        requests: Requests,
        begun: Begun,
        delegation: Delegation,
    ) -> None:
        self._equipment = equipment
        self._log = log
        self._begun = begun
        self._delegation = delegation
        self._boundary = Boundary(log, equipment.workplaces, equipment.owner, requests)
        self._compactor = Compactor(log, requests)
        self._step: Step | None = None

    async def run(self) -> bool:
        """Do step after step; return whether the lease was given up with the last write."""
        try:
            await self._recover()
            while True:
                released = await self._next()
                if released is not None:
                    return released
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_SETTLING, shield=True):
                await self._settle()
            raise

    async def _next(self) -> bool | None:
        """Do one step; return whether the lease was given up if that ends the drain, else None."""
        for _ in range(_TRIES):
            await self._compact()
            workplace = await self._boundary.workplace()
            async with workplace.plugins() as plugins:
                try:
                    crossed = await self._boundary.cross(workplace, plugins)
                except StaleBoundary:
                    continue
                return await self._do(crossed)
        raise StaleBoundary(
            f"session {self._log.state.session}: it is being changed faster than a step can start; "
            "the prompt is kept, run it again"
        )

    async def _do(self, crossed: Crossed | None) -> bool | None:
        if crossed is None:
            return await self._log.write_last() or None
        equipment, log = self._equipment, self._log
        if self._step is None:
            self._begun(log.state, crossed)
        attempts = Attempts(log, equipment.clock, equipment.retry, crossed)
        self._step = Step(
            log, crossed, attempts, self._compactor, equipment.owner, self._delegation
        )
        if await self._step.run():
            return True
        return False if log.state.outcome in {"failed", "declined"} else None

    async def _compact(self) -> None:
        await self._log.catch_up()
        state = self._log.state
        if state.asked_to_compact or state.last_step is not None:
            workplace = await self._boundary.workplace()
            waiting = choose(state, self._equipment.owner, workplace.config.step_limit)
            await self._compactor.when_due(workplace, waiting)

    async def _recover(self) -> None:
        await self._compactor.settle(crashed())
        if self._log.state.step is not None:
            workplace = await self._boundary.workplace()
            async with workplace.plugins() as plugins:
                tools = workplace.tools(self._log.state, plugins, workplace.servers())
                await recover(self._log, workplace, tools, self._delegation)

    async def _settle(self) -> None:
        await self._log.catch_up()
        await self._compactor.settle(interrupted())
        if self._step is not None:
            await self._step.interrupt()
        else:
            await abandon(self._log)
        if self._log.state.unread:
            await self._log.write(DrainInterrupted())
