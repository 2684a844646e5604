"""One run of a session, from wake until idle, in one process."""

from __future__ import annotations

import anyio
import msgspec

from perdure.clock import Clock
from perdure.errors import LeaseLost
from perdure.session.attempts import RetryPolicy
from perdure.session.boundary import Boundary
from perdure.session.feed import Feed
from perdure.session.log import SessionLog
from perdure.session.memory import Memory
from perdure.session.recovery import recover
from perdure.session.step import Step
from perdure.session.workplace import Workplaces
from perdure.store.contract import Lease, Store

_SETTLING = 10.0


class Equipment(msgspec.Struct, frozen=True):
    """What every drain of a runtime works with."""

    store: Store
    feed: Feed
    clock: Clock
    owner: str
    workplaces: Workplaces
    memory: Memory
    retry: RetryPolicy


async def drain(equipment: Equipment, lease: Lease) -> None:
    """Work on a session until nothing is left to do, then give up the lease.

    Settles first what an earlier drain left open. Cancelling it is an interrupt: what runs is
    settled, pending prompts stay. Raises what keeps a boundary from being crossed
    (configuration, store); a step that fails is a settlement in the log and no exception.
    """
    memory = equipment.memory.take(lease.session)
    log = SessionLog(equipment.store, equipment.feed, equipment.clock, lease, memory.state)
    released = False
    try:
        await log.catch_up()
        boundary = Boundary(log, equipment.workplaces, equipment.owner, memory)
        if log.state.step is not None:
            await recover(log, await boundary.workplace())
        released = await _steps(equipment, log, boundary)
        equipment.memory.keep(memory)
    except LeaseLost:
        released = True
        raise
    finally:
        if not released:
            with anyio.CancelScope(shield=True):
                await equipment.store.release(lease)


async def _steps(equipment: Equipment, log: SessionLog, boundary: Boundary) -> bool:
    """Do step after step; return whether the lease was given up with the last write."""
    while True:
        crossed = await boundary.cross()
        if crossed is None:
            if await log.write_last():
                return True
            continue
        step = Step(log, crossed, equipment.owner, equipment.clock, equipment.retry)
        try:
            released = await step.run()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_SETTLING, shield=True):
                await log.catch_up()
                await step.interrupt()
            raise
        if released:
            return True
        if log.state.outcome in {"failed", "declined"}:
            return False
