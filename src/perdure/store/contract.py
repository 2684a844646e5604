"""What a store must do, whichever database it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import msgspec

from perdure.context.snapshot import SourceSnapshot
from perdure.errors import UsageError
from perdure.history.events import Event, Record, SessionCreated


class SessionRow(msgspec.Struct, frozen=True):
    """A session as listings show it. `updated` is the latest time of its events, in milliseconds
    since 1970.

    `outcome` is the settlement of the last Step, "open" while it has none, "" before the first;
    an open one without an `owner` was left so by a crash. `pending` counts the prompts in the
    inbox. `owner` names who drains it now, or is empty. `control_seq` is the seq of the last move,
    switch, entry, withdrawal, change of delivery or interrupt. `crashed` says that its last drain
    is known to have ended without giving up its lease. `parent` is the session whose task this one
    works on, empty where there is none; it may not be in this store.
    """

    id: str
    title: str
    directory: str
    model: str
    outcome: str
    pending: int
    created: int
    updated: int
    last_seq: int
    control_seq: int
    token: int
    owner: str
    crashed: bool = False
    parent: str = ""


class PromptRow(msgspec.Struct, frozen=True):
    """A Prompt id as the store knows it: `seq` is that of its admission."""

    id: str
    session: str
    seq: int
    state: Literal["pending", "promoted", "withdrawn"]


class Guard(msgspec.Struct, frozen=True):
    """What must still hold inside the transaction, or nothing is written.

    `token`: the fencing token of the drain that writes (else LeaseLost). `sampled`: no control
    event may have landed after this seq (else StaleBoundary). `exactly`: no event at all may have
    landed after this seq (else StaleBoundary).
    """

    token: int | None = None
    sampled: int | None = None
    exactly: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """The right to drain one session, until it is released or expires."""

    session: str
    owner: str
    token: int


class Store(Protocol):
    """The event log with its projections: the one place where a session is written.

    Every method is a coroutine that returns only when what it wrote is durable (an acknowledged
    write survives `kill -9` and power loss). Cancelling a caller does not undo a write that was
    handed over. Errors are StoreError, ConcurrencyError, SessionNotFound, PromptConflict or
    UsageError, with the session's id. `perdure.testing.conformance` holds a store to all of this.
    """

    async def create(self, session: str, events: Sequence[Event]) -> Sequence[Record]:
        """Begin a session; `events` starts with SessionCreated, else UsageError.

        ConcurrencyError where the id is taken, PromptConflict where a prompt's is.
        """
        ...

    async def restore(self, session: str, records: Sequence[Record]) -> None:
        """Begin a session with a whole log that was kept elsewhere, times included.

        `records` have the seqs 1, 2, 3 … and begin with SessionCreated, else UsageError. All of it
        is written or nothing: ConcurrencyError where the id is taken, PromptConflict where a
        prompt's is, in whichever session. Fencing tokens begin above every `drain` that an
        InterruptAsked of the log names.
        """
        ...

    async def append(
        self,
        session: str,
        events: Sequence[Event],
        *,
        guard: Guard | None = None,
        release: Lease | None = None,
    ) -> Sequence[Record]:
        """Append events and change the projections, all in one transaction.

        With `release`, the lease is given up in the same transaction. A PromptAdmitted whose id is
        already used raises PromptConflict and writes nothing; `prompt` tells whose it is.
        """
        ...

    async def events(
        self, session: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Record]:
        """Return the durable events with a seq greater than `after`, in order."""
        ...

    async def session(self, session: str) -> SessionRow:
        """Return one session; raises SessionNotFound."""
        ...

    async def sessions(self) -> Sequence[SessionRow]:
        """Return all sessions, the one updated last first."""
        ...

    async def resolve(self, prefix: str) -> str:
        """Return the one id that is `prefix` or begins with it; SessionNotFound, AmbiguousId."""
        ...

    async def prompt(self, prompt: str) -> PromptRow | None:
        """Return what is known of a prompt id, in whichever session; None where it is new."""
        ...

    async def snapshot(self, session: str) -> Mapping[str, SourceSnapshot]:
        """Return a session's Context Snapshot: per source, what was told last."""
        ...

    async def delete(self, session: str) -> Sequence[str]:
        """Remove a session with all that belongs to it, the sessions whose `parent` it is included.

        Returns the ids of what was removed. LeaseLost while one of them is being drained; nothing
        is removed then.
        """
        ...

    async def claim(self, session: str, owner: str) -> Lease | None:
        """Take the session's drain and raise its fencing token; None while another owns it."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give up a lease; nothing happens where it is already lost."""
        ...

    async def version(self, session: str) -> int:
        """Return the seq of the last durable event; cheap enough to be asked often."""
        ...

    async def check(self) -> Sequence[str]:
        """Return what is wrong with the database, a line each; empty when it is sound."""
        ...

    async def close(self) -> None:
        """Finish what was handed over, release what is held and close."""
        ...


def require_whole_log(session: str, records: Sequence[Record]) -> None:
    """Refuse with UsageError what is no whole log of a session, for every store's `restore`."""
    require_beginning(session, [record.data for record in records[:1]])
    for seq, record in enumerate(records, 1):
        if record.seq != seq:
            raise UsageError(
                f"the log given for session {session} has event {record.seq} in the place of "
                f"{seq}; nothing was written. Give every event once, in order"
            )


def require_beginning(session: str, events: Sequence[Event]) -> None:
    """Refuse with UsageError events that begin no session, for every store's `create`."""
    if not events or not isinstance(events[0], SessionCreated):
        found = events[0].type if events else "nothing"
        raise UsageError(
            f"session {session} would begin with {found}; nothing was written. "
            "The first event of a log is session.created"
        )
