"""A drain's hold on one session's log: what it knows, and the only way in which it writes."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from perdure.clock import Clock, milliseconds
from perdure.errors import StaleBoundary
from perdure.history.events import Event, Live, LiveRecord, Record
from perdure.history.state import SessionState, fold, takes_back
from perdure.session.feed import Feed
from perdure.store.contract import Guard, Lease, Store


async def caught_up(store: Store, state: SessionState) -> SessionState:
    """Return the state of a session as its log is now; `state` is that of an earlier moment.

    That one is brought up to date itself, unless a revert has come since.
    """
    session, known = state.session, state.last_seq
    if await store.version(session) <= known:
        return state  # reading takes a thread, and there is often nothing to read
    return await advanced(store, state, await store.events(session, after=known))


async def advanced(store: Store, state: SessionState, records: Sequence[Record]) -> SessionState:
    """Return the state after further records, those that it has seen already left out."""
    new = [record for record in records if record.seq > state.last_seq]
    if takes_back(new):
        return fold(state.session, await store.events(state.session))
    state.apply_all(new)
    return state


class SessionLog:
    """The state of a session under a lease, kept in step with the log.

    Every write carries the lease's token, so that a process which lost the session cannot commit;
    LeaseLost is raised then.
    """

    def __init__(
        self, store: Store, feed: Feed, clock: Clock, lease: Lease, state: SessionState
    ) -> None:
        self.state = state
        self._store = store
        self._feed = feed
        self._clock = clock
        self._lease = lease

    async def catch_up(self) -> None:
        """Apply what others wrote: admissions, switches, moves, entries."""
        self.state = await caught_up(self._store, self.state)

    async def write(self, *events: Event) -> None:
        """Append events, whatever others wrote meanwhile."""
        await self._append(events, Guard(token=self._lease.token))

    async def write_sampled(self, events: Sequence[Event]) -> None:
        """Append events unless a move, a switch, an entry or a change of the inbox came between.

        Raises StaleBoundary, having written nothing, when one did.
        """
        await self._append(events, Guard(token=self._lease.token, sampled=self.state.last_seq))

    async def write_last(self, *events: Event) -> bool:
        """Append events and give up the lease, if nothing at all came between.

        Returns False when something did: the events are written then, and the lease is kept.
        """
        guard = Guard(token=self._lease.token, exactly=self.state.last_seq)
        try:
            await self._append(events, guard, release=self._lease)
        except StaleBoundary:
            if events:
                await self.write(*events)
            return False
        return True

    def show(self, live: Live) -> None:
        """Pass a live fragment to the readers; it is never stored."""
        if self._feed.is_live(self.state.session):
            record = LiveRecord(milliseconds(self._clock.now()), live)
            self._feed.show(self.state.session, record)

    async def _append(
        self, events: Sequence[Event], guard: Guard, release: Lease | None = None
    ) -> None:
        session = self.state.session
        # A write that was handed over is done even when an interrupt comes: whoever settles what
        # ran must know of it.
        with anyio.CancelScope(shield=True):
            records = await self._store.append(session, events, guard=guard, release=release)
            if records and records[0].seq > self.state.last_seq + 1:
                await self.catch_up()
            # Calls that run side by side write and catch up side by side: what one of them learns,
            # another may have applied meanwhile.
            self.state = await advanced(self._store, self.state, records)
            self._feed.publish(session, records)
