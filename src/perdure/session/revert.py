"""Going back to an earlier message: the history behind it is cut off, and the log keeps it."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from perdure.errors import ConcurrencyError
from perdure.history import events as ev
from perdure.history.state import SessionState, fold
from perdure.session.calls import given_up
from perdure.session.changes import until_current
from perdure.session.compaction import interrupted
from perdure.session.cut import place_of, require_standing, sound_cut
from perdure.session.drain import Equipment
from perdure.store.contract import Guard, Lease
from perdure.tools.settle import UNKNOWN


async def revert(equipment: Equipment, session: str, to: int | str) -> None:
    """Cut the history of a session behind a message; durable when this returns.

    Raises UsageError where `to` is no message of the history, ConcurrencyError while somebody
    works on the session.
    """
    lease = await equipment.store.claim(session, equipment.owner)
    if lease is None:
        raise ConcurrencyError(
            f"session {session} is being worked on and cannot be reverted; interrupt it first, or "
            "wait until it is idle"
        )
    released = False
    try:
        await _write(equipment, lease, to)
        released = True
    finally:
        if not released:
            with anyio.CancelScope(shield=True):
                await equipment.store.release(lease)


async def _write(equipment: Equipment, lease: Lease, to: int | str) -> None:
    """Append the revert and give up the lease in one write; decide anew when others wrote."""
    session, store = lease.session, equipment.store

    async def attempt() -> None:
        records = await store.events(session)
        events = reverting(session, records, to)
        guard = Guard(token=lease.token, exactly=len(records))
        written = await store.append(session, events, guard=guard, release=lease)
        equipment.feed.publish(session, written)

    await until_current(session, attempt)


def reverting(session: str, records: Sequence[ev.Record], to: int | str) -> list[ev.Event]:
    """Return the events that revert a session to a message, by seq or prompt id.

    What a crash left open is settled before, without being run. Raises UsageError where `to` is no
    message of the history.
    """
    place = place_of(session, records, to)
    require_standing(session, records, place)
    cut = sound_cut(records, place)
    then = fold(session, records[:cut])
    return [*_settling(fold(session, records)), ev.SessionReverted(cut, dict(then.snapshot))]


def _settling(state: SessionState) -> list[ev.Event]:
    events: list[ev.Event] = [interrupted()] if state.compacting else []
    step = state.step
    if step is None:
        return events
    return [*events, *given_up(step, UNKNOWN), ev.StepFinished(step.started.step, "crashed")]
