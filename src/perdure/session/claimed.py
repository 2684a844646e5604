"""What is written to a session that nobody works on, under a lease taken for that one write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import anyio

from perdure.history import events as ev
from perdure.history.state import SessionState
from perdure.session.calls import given_up
from perdure.session.changes import until_current
from perdure.session.compaction import interrupted
from perdure.session.feed import Feed
from perdure.store.contract import Guard, Lease, Store
from perdure.tools.settle import UNKNOWN

Decide = Callable[[Sequence[ev.Record]], list[ev.Event]]
"""Returns what to write to a session with that log."""

WriteAlone = Callable[[str, Decide], Awaitable[bool]]
"""Writes to a session what is decided; returns False, having written nothing, while somebody works
on it."""


async def write_claimed(store: Store, feed: Feed, lease: Lease, decide: Decide) -> None:
    """Write what is decided from a session's log, and give up its lease in the same write.

    Decides anew where others wrote in between. The lease is given up whatever is raised.
    """
    session = lease.session

    async def attempt() -> None:
        records = await store.events(session)
        guard = Guard(token=lease.token, exactly=len(records))
        written = await store.append(session, decide(records), guard=guard, release=lease)
        feed.publish(session, written)

    released = False
    try:
        await until_current(session, attempt)
        released = True
    finally:
        if not released:
            with anyio.CancelScope(shield=True):
                await store.release(lease)


def settling(state: SessionState, outcome: ev.StepOutcome) -> list[ev.Event]:
    """Return the events that settle what a crash left open, a step with that outcome."""
    events: list[ev.Event] = [interrupted()] if state.compacting else []
    step = state.step
    if step is None:
        return events
    return [*events, *given_up(step, UNKNOWN), ev.StepFinished(step.started.step, outcome)]
