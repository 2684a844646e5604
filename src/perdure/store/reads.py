"""The queries that read sessions, each run inside one snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import msgspec

from perdure.context.snapshot import SourceSnapshot
from perdure.errors import AmbiguousId, StoreDamaged
from perdure.history.events import Record, decode
from perdure.store.contract import PromptRow, SessionRow
from perdure.store.database import Connection, text
from perdure.store.lease import not_found
from perdure.store.process import Process, is_gone
from perdure.store.schema import MOST_EVENTS, SEQ_BITS

# Texts are read as bytes: a damaged one must fail in its own row, where it can be named.
_SESSIONS = """
    SELECT CAST(s.id AS BLOB), CAST(s.title AS BLOB), CAST(s.directory AS BLOB),
        CAST(s.model AS BLOB), CAST(s.outcome AS BLOB), CAST(s.owner AS BLOB),
        CAST(s.parent AS BLOB), CAST(h.host AS BLOB), h.pid, h.started,
        s.pending, s.created, s.updated, s.last_seq, s.control_seq, s.token
    FROM session AS s LEFT JOIN holder AS h ON h.number = s.holder
"""
_SESSION = f"{_SESSIONS} WHERE s.id = ?"
_LATEST = f"{_SESSIONS} ORDER BY s.updated DESC, s.number DESC"
_PLACE = "SELECT number, last_seq FROM session WHERE id = ?"
_ALL = "SELECT number, CAST(id AS BLOB) FROM session ORDER BY number"
_CHILDREN = "SELECT CAST(id AS BLOB) FROM session WHERE parent = ? AND id <> parent ORDER BY number"
_LIKE = """
    SELECT CAST(id AS BLOB) FROM session WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id LIMIT 6
"""
_PROMPT = """
    SELECT CAST(s.id AS BLOB), p.seq, CAST(p.state AS BLOB)
    FROM prompt AS p JOIN session AS s ON s.number = p.session
    WHERE p.id = ?
"""
_EVENTS = """
    SELECT e.place, CAST(k.name AS BLOB), e.time, CAST(e.data AS BLOB)
    FROM event AS e LEFT JOIN kind AS k ON k.number = e.kind
    WHERE e.place BETWEEN ? AND ? ORDER BY e.place
"""
_ENTRIES = "SELECT key, entry FROM snapshot WHERE session = ?"
_entries = msgspec.json.Decoder(SourceSnapshot)


def session(connection: Connection, id_: str, here: Process) -> SessionRow:
    """Return one session's row."""
    row = _find(connection, _SESSION, id_)
    if row is None:
        raise not_found(id_)
    return _session_row(row, here)


def sessions(connection: Connection, here: Process) -> list[SessionRow]:
    """Return all sessions, the one updated last first."""
    return [_session_row(row, here) for row in connection.execute(_LATEST)]


def numbers(connection: Connection) -> list[tuple[int, str]]:
    """Return the numbers and ids of all sessions, oldest first."""
    return [(number, text(id_)) for number, id_ in connection.execute(_ALL)]


def version(connection: Connection, id_: str) -> int:
    """Return the seq of a session's last event."""
    return place(connection, id_)[1]


def place(connection: Connection, id_: str) -> tuple[int, int]:
    """Return a session's number and the seq of its last event."""
    row: Any = _find(connection, _PLACE, id_)
    if row is None:
        raise not_found(id_)
    return row


def children(connection: Connection, id_: str) -> list[str]:
    """Return the ids of the sessions whose parent it is, oldest first."""
    return [text(child) for (child,) in connection.execute(_CHILDREN, (id_,))]


def resolve(connection: Connection, prefix: str) -> str:
    """Return the one id that is `prefix` or begins with it."""
    found = _beginning_with(connection, prefix)
    if not found:
        raise not_found(prefix)
    if len(found) == 1 or found[0] == prefix:
        return found[0]
    shown = ", ".join(found[:5]) + (" and more" if len(found) > 5 else "")
    raise AmbiguousId(f"{prefix!r} begins several session ids ({shown}); give more of it")


def prompt(connection: Connection, id_: str) -> PromptRow | None:
    """Return what is known of a prompt id."""
    row: Any = _find(connection, _PROMPT, id_)
    if row is None:
        return None
    session, seq, state = row
    return PromptRow(id_, text(session), seq, cast("Any", text(state)))


def snapshot(connection: Connection, id_: str) -> dict[str, SourceSnapshot]:
    """Return the Context Snapshot of a session."""
    number, _ = place(connection, id_)
    rows = connection.execute(_ENTRIES, (number,))
    try:
        return {key: _entries.decode(entry) for key, entry in rows}
    except msgspec.MsgspecError as error:
        raise StoreDamaged(
            f"the Context Snapshot of session {id_} is damaged ({error}); "
            "run `perdure doctor --repair`"
        ) from error


def events(
    connection: Connection, id_: str, after: int = 0, limit: int | None = None
) -> list[Record]:
    """Return a session's events after a seq; raise StoreDamaged where one is not what it was."""
    number, last = place(connection, id_)
    after = max(after, 0)
    until = last if limit is None else min(last, after + max(limit, 0))
    records = list(log(connection, id_, number, after, until))
    if len(records) < until - after:
        raise missing(id_, after + len(records) + 1)
    return records


def log(
    connection: Connection, id_: str, number: int, after: int = 0, until: int = MOST_EVENTS
) -> Iterator[Record]:
    """Yield what the log holds of a session, in order; raise StoreDamaged at the first fault."""
    base = number << SEQ_BITS
    rows: Any = connection.execute(_EVENTS, (base + after + 1, base + until))
    for seq, (place_, kind, time, data) in enumerate(rows, after + 1):
        if place_ != base + seq:
            raise missing(id_, seq)
        try:
            yield Record(seq, time, decode(text(kind), data))
        except (StoreDamaged, ValueError, TypeError) as error:
            raise _blocked(f"event {seq} of session {id_} is damaged ({error})", id_) from error


def missing(id_: str, seq: int) -> StoreDamaged:
    """Return the error for an event that is not where it should be."""
    return _blocked(f"event {seq} of session {id_} is missing", id_)


def unreadable(id_: str, words: str) -> StoreDamaged:
    """Return the error for a log whose events are whole and make no sense together."""
    return _blocked(f"the log of session {id_} makes no sense ({words})", id_)


def _blocked(what: str, id_: str) -> StoreDamaged:
    return StoreDamaged(
        f"{what}; other sessions are not affected. Restore a backup, or remove the session with "
        f"`perdure sessions delete {id_}`"
    )


def _find(connection: Connection, query: str, id_: str) -> tuple[Any, ...] | None:
    try:
        return connection.execute(query, (id_,)).fetchone()
    except UnicodeEncodeError:  # what is no text has never become an id
        return None


def _beginning_with(connection: Connection, prefix: str) -> list[str]:
    try:
        rows = connection.execute(_LIKE, (prefix,)) if prefix else ()
        return [text(id_) for (id_,) in rows]
    except UnicodeEncodeError:  # as above
        return []


def _session_row(row: Any, here: Process) -> SessionRow:
    texts, (host, pid, started), numbers = row[:7], row[7:10], row[10:]
    shown: list[Any] = [text(each) for each in texts]
    parent, owner = shown.pop(), shown.pop()
    # What is damaged shows as nothing here; `perdure doctor` names it.
    shown += [number if isinstance(number, int) else 0 for number in numbers]
    crashed = host is not None and is_gone(Process(text(host), pid, started), here)
    shown += ["" if host is None or crashed else owner, crashed, parent]
    return SessionRow(*shown)
