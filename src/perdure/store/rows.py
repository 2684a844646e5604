"""The statements that write a session, each run inside the writer's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec

from perdure.errors import ConcurrencyError, LeaseLost, PromptConflict, StaleBoundary
from perdure.history.events import Event, InterruptAsked, Record, encode
from perdure.history.projection import RowChanges, project
from perdure.store.contract import Guard, Lease
from perdure.store.database import Connection
from perdure.store.lease import not_found
from perdure.store.reads import missing
from perdure.store.schema import MOST_EVENTS, SEQ_BITS

_CREATE = """
    INSERT INTO session (id, created, updated, token) VALUES (?, ?, ?, ?)
    ON CONFLICT DO NOTHING RETURNING 1
"""

# One statement is the lease check, the sequence, the projection of the session's row and its lock.
_ADVANCE = """
    UPDATE session SET
        last_seq = last_seq + :count,
        control_seq = coalesce(last_seq + :control, control_seq),
        updated = iif(:count, max(updated, :time), updated),
        pending = pending + :pending,
        title = coalesce(:title, title),
        directory = coalesce(:directory, directory),
        model = coalesce(:model, model),
        outcome = coalesce(:outcome, outcome),
        parent = coalesce(:parent, parent),
        owner = iif(token = :released, '', owner),
        holder = iif(token = :released, NULL, holder)
    WHERE id = :session
        AND (:token IS NULL OR (token = :token AND holder IS NOT NULL))
        AND (:sampled IS NULL OR control_seq <= :sampled)
        AND (:exactly IS NULL OR last_seq = :exactly)
    RETURNING number, last_seq - :count
"""
_REFUSED = "SELECT token, holder, control_seq, last_seq FROM session WHERE id = ?"
_THERE = "SELECT 1 FROM event WHERE place = ?"
_EVENT = "INSERT INTO event VALUES (?, (SELECT number FROM kind WHERE name = ?), ?, ?)"
_ADMIT = """
    INSERT INTO prompt VALUES (?, ?, ?, 'pending') ON CONFLICT DO NOTHING RETURNING 1
"""
_SETTLE = """
    UPDATE prompt SET state = ? WHERE id = ? AND session = ? AND state = 'pending' RETURNING 1
"""
_PROMPT = """
    SELECT s.id, p.state FROM prompt AS p JOIN session AS s ON s.number = p.session WHERE p.id = ?
"""
_KEEP_ENTRIES = """
    DELETE FROM snapshot
    WHERE session = ? AND key NOT IN (SELECT value FROM json_each(?))
"""
_TELL_ENTRY = """
    INSERT INTO snapshot VALUES (?, ?, ?)
    ON CONFLICT DO UPDATE SET entry = excluded.entry WHERE entry <> excluded.entry
"""
_DROP_ENTRY = "DELETE FROM snapshot WHERE session = ? AND key = ?"


_MOST_DRAINS = 1 << 53


class Batch:
    """Events of one session on their way to the log, each with its time, and what they change."""

    __slots__ = ("_binds", "_changes", "_events", "_rows", "_times", "session")

    def __init__(
        self,
        session: str,
        events: Sequence[Event],
        times: Sequence[int],
        guard: Guard | None = None,
        release: Lease | None = None,
    ) -> None:
        guard = guard or Guard()
        changes = project(events)
        self.session = session
        self._times = times
        self._events = events
        self._changes = changes
        self._rows = [(event.type, encode(event).decode()) for event in events]
        self._binds = {
            "session": session,
            "count": len(events),
            "time": times[-1] if times else 0,
            "control": None if changes.control is None else changes.control + 1,
            "pending": changes.pending,
            "title": changes.columns.get("title"),
            "directory": changes.columns.get("directory"),
            "model": changes.columns.get("model"),
            "outcome": changes.columns.get("outcome"),
            "parent": changes.columns.get("parent"),
            "token": guard.token,
            "sampled": guard.sampled,
            "exactly": guard.exactly,
            "released": None if release is None else release.token,
        }

    def create(self, connection: Connection) -> int:
        """Begin the session and append; return the seq before the first event."""
        row = (self.session, self._times[0], max(self._times), self._asked())
        if connection.execute(_CREATE, row).get is None:
            raise ConcurrencyError(
                f"session {self.session} exists already; nothing was written. Use another id"
            )
        return self.append(connection)

    def _asked(self) -> int:
        # A whole log may name drains that ran elsewhere; none to come may be one of them.
        asked = (each.drain for each in self._events if isinstance(each, InterruptAsked))
        return min(max(asked, default=0), _MOST_DRAINS)

    def append(self, connection: Connection) -> int:
        """Append to the session; return the seq before the first event."""
        row = connection.execute(_ADVANCE, self._binds).fetchone()
        if row is None:
            raise self._refusal(connection)
        number, last = row
        # What is appended behind a log that has lost its end could never be read.
        if last and connection.execute(_THERE, ((number << SEQ_BITS) + last,)).get is None:
            raise missing(self.session, last)
        first = (number << SEQ_BITS) + last + 1
        connection.executemany(
            _EVENT,
            [
                (place, kind, time, data)
                for place, time, (kind, data) in zip(
                    count(first), self._times, self._rows, strict=False
                )
            ],
        )
        apply(connection, number, last, self._changes)
        return last

    def records(self, last: int) -> list[Record]:
        """Return the events as readers will see them; `last` is the seq before the first."""
        rows = zip(count(last + 1), self._times, self._events, strict=False)
        return [Record(seq, time, event) for seq, time, event in rows]

    def _refusal(self, connection: Connection) -> Exception:
        token, sampled, exactly = (self._binds[name] for name in ("token", "sampled", "exactly"))
        row = connection.execute(_REFUSED, (self.session,)).fetchone()
        if row is None:
            return not_found(self.session)
        current, holder, control, last = row
        if token is not None and (current != token or holder is None):
            return LeaseLost(
                f"session {self.session} is no longer run under the lease with token {token} "
                f"(the last one given is {current}); nothing was written"
            )
        stale = exactly is not None and last != exactly
        landed, read = (last, exactly) if stale else (control, sampled)
        return StaleBoundary(
            f"session {self.session} has an event {landed}, which landed after it was read at "
            f"{read}; nothing was written. Read again and repeat"
        )


def apply(connection: Connection, number: int, last: int, changes: RowChanges) -> None:
    """Write the prompts and the Snapshot of a session; `last` is the seq before the batch."""
    for prompt, index in changes.admitted.items():
        row = (prompt, number, last + 1 + index)
        if connection.execute(_ADMIT, row).get is None:
            raise _conflict(connection, prompt)
    for prompt, state in changes.prompts.items():
        if connection.execute(_SETTLE, (state, prompt, number)).get is None:
            raise _conflict(connection, prompt)
    if changes.clear_snapshot:
        kept = [key for key, entry in changes.snapshot.items() if entry is not None]
        connection.execute(_KEEP_ENTRIES, (number, msgspec.json.encode(kept).decode()))
    for key, entry in changes.snapshot.items():
        if entry is None:
            connection.execute(_DROP_ENTRY, (number, key))
        else:
            connection.execute(_TELL_ENTRY, (number, key, entry.decode()))


def remove(connection: Connection, number: int) -> None:
    """Delete a session with all that belongs to it."""
    connection.execute(
        "DELETE FROM event WHERE place BETWEEN ? AND ?",
        (number << SEQ_BITS, (number << SEQ_BITS) + MOST_EVENTS),
    )
    clear_projections(connection, number)
    connection.execute("DELETE FROM session WHERE number = ?", (number,))


def clear_projections(connection: Connection, number: int) -> None:
    """Delete the prompts and the Snapshot of a session."""
    connection.execute("DELETE FROM prompt WHERE session = ?", (number,))
    connection.execute("DELETE FROM snapshot WHERE session = ?", (number,))


def _conflict(connection: Connection, prompt: str) -> PromptConflict:
    row: Any = connection.execute(_PROMPT, (prompt,)).fetchone()
    if row is None:
        return PromptConflict(f"there is no prompt {prompt}; nothing was written")
    session, state = row
    return PromptConflict(
        f"prompt {prompt} is already {state} in session {session}; nothing was written"
    )
