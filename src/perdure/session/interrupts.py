"""Interrupts from elsewhere: asked for in the log, noticed by whoever drains the session."""

from __future__ import annotations

from contextlib import suppress

import anyio

from perdure.errors import PerdureError
from perdure.history.events import InterruptAsked, PromptAdmitted
from perdure.session.changes import until_current
from perdure.session.feed import Feed
from perdure.store.contract import Guard, Lease, SessionRow, Store

_LOOK = 0.15
"""Seconds between two looks of a drain; each of them reads one row."""

_BEHIND = 100


async def ask_owner(store: Store, feed: Feed, session: str, asker: str) -> bool:
    """Ask the process that drains a session to stop; durable when it returns.

    Returns False, having written nothing, where nobody but the asker owns the session. Asking
    again for the same drain writes nothing new.
    """

    async def attempt() -> bool:
        row = await store.session(session)
        if row.owner in {"", asker}:
            return False
        if not await _is_asked(store, row):
            guard = Guard(sampled=row.control_seq)
            records = await store.append(session, [InterruptAsked(row.token)], guard=guard)
            feed.publish(session, records)
        return True

    return await until_current(session, attempt)


async def until_asked(store: Store, lease: Lease, after: int) -> int:
    """Wait until somebody asks this very drain to stop, and return the seq of that.

    Returns 0 when another drain has taken over. `after` is a seq from before the lease was taken.
    What was asked of another drain is no matter.
    """
    while True:
        # Not the injected clock: this waits for people, and nothing of it is in the log.
        await anyio.sleep(_LOOK)
        try:
            row = await store.session(lease.session)
            if row.token != lease.token:
                return 0
            if row.control_seq <= after:
                continue
            for record in await store.events(lease.session, after=after):
                if record.data == InterruptAsked(lease.token):
                    return record.seq
                after = record.seq
        except PerdureError:
            # The drain itself meets the fault at its next write, and says so.
            continue


async def prompted_since(store: Store, session: str, seq: int) -> bool:
    """Say whether a Prompt was admitted after that seq."""
    with suppress(PerdureError):  # as above
        records = await store.events(session, after=seq)
        return any(isinstance(record.data, PromptAdmitted) for record in records)
    return False


async def _is_asked(store: Store, row: SessionRow) -> bool:
    # An asked drain ends at once, so its interrupt is never far behind the last control event.
    begin = max(0, row.control_seq - _BEHIND)
    records = await store.events(row.id, after=begin, limit=row.control_seq - begin)
    return any(record.data == InterruptAsked(row.token) for record in records)
