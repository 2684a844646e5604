"""Is the database what its log says? And how it becomes so again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import apsw

from perdure.errors import StoreDamaged
from perdure.history.events import Record
from perdure.history.projection import project
from perdure.history.state import fold
from perdure.store import reads, rows
from perdure.store.database import Connection, text
from perdure.store.schema import SEQ_BITS

_TEXTS = ("title", "directory", "model", "outcome", "parent")
_NUMBERS = ("pending", "created", "updated", "last_seq", "control_seq")
_ROW = f"""
    SELECT {", ".join([*(f"CAST({name} AS BLOB)" for name in _TEXTS), *_NUMBERS])}
    FROM session WHERE number = ?
"""  # noqa: S608 constants
_SET = f"""
    UPDATE session SET {", ".join(f"{name} = :{name}" for name in _TEXTS + _NUMBERS)}
    WHERE number = :number
"""  # noqa: S608 constants
_PROMPT = "SELECT session, seq, CAST(state AS BLOB) FROM prompt WHERE id = ?"
_PROMPTS = "SELECT session, count(*) FROM prompt GROUP BY session"
_ENTRIES = "SELECT CAST(key AS BLOB), CAST(entry AS BLOB) FROM snapshot WHERE session = ?"
_ADMIT = "INSERT OR REPLACE INTO prompt VALUES (?, ?, ?, ?)"
_NOBODYS = "holder IS NOT NULL AND holder NOT IN (SELECT number FROM holder)"
_STRAYS = {
    "event": f"place >> {SEQ_BITS} NOT IN (SELECT number FROM session)",  # noqa: S608 constants
    "prompt": "session NOT IN (SELECT number FROM session)",
    "snapshot": "session NOT IN (SELECT number FROM session)",
}


class Fold:
    """What the log of one session comes to: the row, the prompts and the Snapshot."""

    def __init__(self) -> None:
        self.row: dict[str, Any] = {}
        self.row.update(dict.fromkeys(_TEXTS, ""), **dict.fromkeys(_NUMBERS, 0))
        self.prompts: dict[str, tuple[int, str]] = {}
        self.snapshot: dict[str, str] = {}

    def add(self, record: Record) -> None:
        """Take in the next event."""
        seq = record.seq or 0
        changes = project((record.data,))
        self.row.update(changes.columns, last_seq=seq)
        # The clock may have been set back since the last one.
        self.row["updated"] = max(self.row["updated"], record.time)
        if seq == 1:
            self.row["created"] = record.time
        if changes.control is not None:
            self.row["control_seq"] = seq
        self.row["pending"] += changes.pending
        self.prompts.update((prompt, (seq, "pending")) for prompt in changes.admitted)
        for prompt, state in changes.prompts.items():
            self.prompts[prompt] = (self.prompts.get(prompt, (0, ""))[0], state)
        self._tell(changes.snapshot, clear=changes.clear_snapshot)

    def _tell(self, entries: Mapping[str, bytes | None], *, clear: bool) -> None:
        if clear:
            self.snapshot.clear()
        for key, entry in entries.items():
            if entry is None:
                self.snapshot.pop(key, None)
            else:
                self.snapshot[key] = entry.decode()


def check(connection: Connection) -> list[str]:
    """Return what is wrong with the database, a line each."""
    wrong = [f"the file itself: {line}" for line in _structure(connection)]
    counts = dict(connection.execute(_PROMPTS).fetchall())
    for number, id_ in reads.numbers(connection):
        wrong.extend(_faults(connection, number, id_, counts.get(number, 0)))
    for table, stray in _STRAYS.items():
        count = connection.execute(f"SELECT count(*) FROM {table} WHERE {stray}").get  # noqa: S608 constants
        if count:
            wrong.append(_to_repair(f"{count} rows of table {table} belong to no session"))
    leases = connection.execute(f"SELECT count(*) FROM session WHERE {_NOBODYS}").get  # noqa: S608 constants
    if leases:
        wrong.append(_to_repair(f"{leases} leases belong to no process"))
    return wrong


def rebuild(connection: Connection, number: int, id_: str) -> list[str]:
    """Write a session's projections anew from its log; return what was wrong, a line each.

    Raises StoreDamaged, and changes nothing, where the log itself is damaged.
    """
    found = _fold(connection, number, id_)
    count = connection.execute("SELECT count(*) FROM prompt WHERE session = ?", (number,)).get
    wrong = list(_differences(connection, number, found, count))
    if wrong:
        _write(connection, number, found)
    return [f"session {id_}: {line}" for line in wrong]


def remove_strays(connection: Connection) -> list[str]:
    """Delete the rows that belong to no session; return a line for each table that had some."""
    lines: list[str] = []
    for table, stray in _STRAYS.items():
        connection.execute(f"DELETE FROM {table} WHERE {stray}")  # noqa: S608 constants
        if connection.changes():
            lines.append(f"{connection.changes()} rows of table {table} belonged to no session")
    connection.execute(f"UPDATE session SET owner = '', holder = NULL WHERE {_NOBODYS}")  # noqa: S608 constants
    if connection.changes():
        lines.append(f"{connection.changes()} leases belonged to no process")
    return lines


def reindex(connection: Connection) -> list[str]:
    """Write the indexes anew where the file's structure is damaged; return what that mended."""
    before = _structure(connection)
    if not before:
        return []
    connection.execute("REINDEX")
    left = _structure(connection)
    return [f"the file itself: {line}" for line in before if line not in left]


def _structure(connection: Connection) -> list[str]:
    lines = [line for (line,) in connection.execute("PRAGMA integrity_check")]
    return [line for line in lines if line != "ok"]


def _to_repair(line: str) -> str:
    return f"{line}; run `perdure doctor --repair`"


def _faults(connection: Connection, number: int, id_: str, count: int) -> Iterator[str]:
    try:
        found = _fold(connection, number, id_)
        for line in _differences(connection, number, found, count):
            yield _to_repair(f"session {id_}: {line}")
    except StoreDamaged as error:
        yield str(error)
    except (apsw.Error, UnicodeDecodeError) as error:
        yield f"session {id_} cannot be read ({error}); restore a backup"


def _fold(connection: Connection, number: int, id_: str) -> Fold:
    found = Fold()
    records = list(reads.log(connection, id_, number))
    for record in records:
        found.add(record)
    if not records:
        raise reads.missing(id_, 1)
    try:
        fold(id_, records)
    except StoreDamaged as error:
        raise reads.unreadable(id_, str(error)) from error
    return found


def _differences(connection: Connection, number: int, found: Fold, count: int) -> Iterator[str]:
    row = connection.execute(_ROW, (number,)).fetchone() or ()
    for name, value in zip(_TEXTS + _NUMBERS, row, strict=True):
        shown = text(value) if name in _TEXTS else value
        if shown == found.row[name]:
            continue
        yield f"its row has {name} {shown!r}, its log {found.row[name]!r}"
        if name == "last_seq" and isinstance(shown, int) and shown > found.row[name]:
            yield f"what came after event {found.row[name]} of it may be lost"
    if count != len(found.prompts):
        yield f"it has {count} prompts, its log {len(found.prompts)}"
    for prompt, (seq, state) in found.prompts.items():
        if connection.execute(_PROMPT, (prompt,)).fetchone() != (number, seq, state.encode()):
            yield f"prompt {prompt} is not {state} as in its log"
    entries = [(text(key), text(entry)) for key, entry in connection.execute(_ENTRIES, (number,))]
    if sorted(entries) != sorted(found.snapshot.items()):
        yield "its Context Snapshot is not that of its log"


def _write(connection: Connection, number: int, found: Fold) -> None:
    connection.execute(_SET, {**found.row, "number": number})
    rows.clear_projections(connection, number)
    # A damaged row may have given a prompt to another session, whose log does not know it.
    connection.executemany(
        _ADMIT, [(prompt, number, seq, state) for prompt, (seq, state) in found.prompts.items()]
    )
    connection.executemany(
        "INSERT INTO snapshot VALUES (?, ?, ?)",
        [(number, key, entry) for key, entry in found.snapshot.items()],
    )
