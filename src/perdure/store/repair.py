"""Is the database what its log says? And how it becomes so again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import apsw

from perdure.errors import StoreDamaged
from perdure.history.events import Record
from perdure.history.projection import project
from perdure.store import reads, rows
from perdure.store.database import Connection
from perdure.store.schema import SEQ_BITS

_TEXTS = ("title", "directory", "model", "outcome")
_NUMBERS = ("pending", "created", "updated", "last_seq", "control_seq")
_ROW = f"SELECT {', '.join(_TEXTS + _NUMBERS)} FROM session WHERE number = ?"  # noqa: S608 constants
_SET = f"""
    UPDATE session SET {", ".join(f"{name} = :{name}" for name in _TEXTS + _NUMBERS)}
    WHERE number = :number
"""  # noqa: S608 constants
_PROMPT = "SELECT session, seq, state FROM prompt WHERE id = ?"
_PROMPTS = "SELECT session, count(*) FROM prompt GROUP BY session"
_ENTRIES = "SELECT key, entry FROM snapshot WHERE session = ?"
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
        self.row.update(changes.columns, last_seq=seq, updated=record.time)
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
    wrong = [
        f"the file itself: {line}"
        for (line,) in connection.execute("PRAGMA integrity_check")
        if line != "ok"
    ]
    counts = dict(connection.execute(_PROMPTS).fetchall())
    for number, id_ in connection.execute("SELECT number, id FROM session ORDER BY number"):
        wrong.extend(_faults(connection, number, id_, counts.get(number, 0)))
    for table, stray in _STRAYS.items():
        count = connection.execute(f"SELECT count(*) FROM {table} WHERE {stray}").get  # noqa: S608 constants
        if count:
            wrong.append(f"{count} rows of table {table} belong to no session")
    return wrong


def rebuild(connection: Connection, id_: str) -> list[str]:
    """Write a session's projections anew from its log; return what was wrong, a line each."""
    number, _ = reads.place(connection, id_)
    fold = _fold(connection, number, id_)
    count = connection.execute("SELECT count(*) FROM prompt WHERE session = ?", (number,)).get
    wrong = list(_differences(connection, number, fold, count))
    if wrong:
        _write(connection, number, fold)
    return [f"session {id_}: {line}" for line in wrong]


def remove_strays(connection: Connection) -> list[str]:
    """Delete the rows that belong to no session; return a line for each table that had some."""
    lines: list[str] = []
    for table, stray in _STRAYS.items():
        connection.execute(f"DELETE FROM {table} WHERE {stray}")  # noqa: S608 constants
        if connection.changes():
            lines.append(f"{connection.changes()} rows of table {table} belonged to no session")
    return lines


def _faults(connection: Connection, number: int, id_: str, count: int) -> Iterator[str]:
    try:
        fold = _fold(connection, number, id_)
        for line in _differences(connection, number, fold, count):
            yield f"session {id_}: {line}; run `perdure doctor --repair`"
    except StoreDamaged as error:
        yield str(error)
    except (apsw.Error, UnicodeDecodeError) as error:
        yield f"session {id_} cannot be read ({error}); restore a backup"


def _fold(connection: Connection, number: int, id_: str) -> Fold:
    fold = Fold()
    for record in reads.log(connection, id_, number):
        fold.add(record)
    return fold


def _differences(connection: Connection, number: int, fold: Fold, count: int) -> Iterator[str]:
    row = connection.execute(_ROW, (number,)).fetchone() or ()
    for name, value in zip(_TEXTS + _NUMBERS, row, strict=True):
        if value != fold.row[name]:
            yield f"its row has {name} {value!r}, its log {fold.row[name]!r}"
    if count != len(fold.prompts):
        yield f"it has {count} prompts, its log {len(fold.prompts)}"
    for prompt, (seq, state) in fold.prompts.items():
        if connection.execute(_PROMPT, (prompt,)).fetchone() != (number, seq, state):
            yield f"prompt {prompt} is not {state} as in its log"
    entries = dict(connection.execute(_ENTRIES, (number,)).fetchall())
    if entries != fold.snapshot:
        yield "its Context Snapshot is not that of its log"


def _write(connection: Connection, number: int, fold: Fold) -> None:
    connection.execute(_SET, {**fold.row, "number": number})
    rows.clear_projections(connection, number)
    connection.executemany(
        "INSERT INTO prompt VALUES (?, ?, ?, ?)",
        [(prompt, number, seq, state) for prompt, (seq, state) in fold.prompts.items()],
    )
    connection.executemany(
        "INSERT INTO snapshot VALUES (?, ?, ?)",
        [(number, key, entry) for key, entry in fold.snapshot.items()],
    )
