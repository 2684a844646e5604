"""The tables of the SQLite store, and the ordered steps that lead to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from perdure.errors import StoreTooNew
from perdure.history.events import EVENTS
from perdure.store import faults
from perdure.store.database import Connection, Database

APPLICATION_ID = 0x50455244
"""Marks the file as a database of Perdure ("PERD")."""

PAGE_SIZE = 512
"""In bytes. A commit writes whole pages and a step changes a few bytes in each of several places,
so small pages write least: measured, a text step costs half of what it does with 1024."""

SEQ_BITS = 32
"""An event's key is its session's number shifted by this, plus its seq."""

MOST_EVENTS = (1 << SEQ_BITS) - 1
"""The greatest seq that a session can reach."""

_FIRST = (
    """
    CREATE TABLE session (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL DEFAULT '',
        directory TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '',
        outcome TEXT NOT NULL DEFAULT '',
        pending INTEGER NOT NULL DEFAULT 0,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        last_seq INTEGER NOT NULL DEFAULT 0,
        control_seq INTEGER NOT NULL DEFAULT 0,
        token INTEGER NOT NULL DEFAULT 0,
        owner TEXT NOT NULL DEFAULT '',
        holder INTEGER
    ) STRICT
    """,
    "CREATE TABLE kind (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT",
    # The key of an event is its place in the tree, so a session's events lie together and no
    # index is written beside them.
    """
    CREATE TABLE event (
        place INTEGER PRIMARY KEY,
        kind INTEGER NOT NULL,
        time INTEGER NOT NULL,
        data TEXT NOT NULL
    ) STRICT
    """,
    """
    CREATE TABLE prompt (
        id TEXT PRIMARY KEY,
        session INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        state TEXT NOT NULL
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE snapshot (
        session INTEGER NOT NULL,
        key TEXT NOT NULL,
        entry TEXT NOT NULL,
        PRIMARY KEY (session, key)
    ) STRICT, WITHOUT ROWID
    """,
    """
    CREATE TABLE holder (
        number INTEGER PRIMARY KEY,
        host TEXT NOT NULL,
        pid INTEGER NOT NULL,
        started INTEGER NOT NULL,
        lease REAL NOT NULL,
        beat INTEGER NOT NULL
    ) STRICT
    """,
)


def _first(connection: Connection) -> None:
    for statement in _FIRST:
        connection.execute(statement)


def _second(connection: Connection) -> None:
    # No index: only deleting looks for children, and each step would write it once more.
    connection.execute("ALTER TABLE session ADD COLUMN parent TEXT NOT NULL DEFAULT ''")


MIGRATIONS: tuple[tuple[str, Callable[[Connection], None]], ...] = (
    ("sessions, events, prompts, snapshots, holders", _first),
    ("parents of sessions", _second),
)
"""Every step of the schema, oldest first; each runs in a transaction of its own."""


def prepare(connection: Connection, database: Database, now: int) -> None:
    """Bring the database to this version's schema and make sure that it can be written.

    `now` goes into the ledger, in milliseconds since 1970. Several processes may do so at the same
    moment. Raises StoreTooNew for a database of a newer Perdure and StoreError for a foreign one,
    both before anything is changed.
    """
    path = database.path
    _recognize(connection, path)
    if connection.readonly("main"):
        raise faults.read_only(path)
    connection.pragma("page_size", PAGE_SIZE)
    if not database.turn_on_log(connection):
        raise faults.not_ours(path, "its file system cannot keep a write-ahead log")
    while not _advance(connection, path, now):
        pass


def _advance(connection: Connection, path: Path, now: int) -> bool:
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = _recognize(connection, path)
        done = version == len(MIGRATIONS)
        if done:
            _name_kinds(connection)
        else:
            _migrate(connection, version, now)
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return done


def _recognize(connection: Connection, path: Path) -> int:
    version, newest = connection.pragma("user_version"), len(MIGRATIONS)
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    # Read last: whatever another Perdure has made in the meantime, its mark came with it.
    mark = connection.pragma("application_id")
    if mark != APPLICATION_ID and (mark or version or tables):
        raise faults.not_ours(path, "another program made it")
    if version > newest:
        raise StoreTooNew(
            f"{path} has schema version {version}, and this Perdure knows versions up to {newest}; "
            "upgrade Perdure or choose another file for the store"
        )
    return version


def _migrate(connection: Connection, version: int, now: int) -> None:
    name, migration = MIGRATIONS[version]
    if version == 0:
        connection.pragma("application_id", APPLICATION_ID)
        connection.execute(
            "CREATE TABLE migration (version INTEGER PRIMARY KEY, name TEXT, time INTEGER) STRICT"
        )
    migration(connection)
    connection.execute("INSERT INTO migration VALUES (?, ?, ?)", (version + 1, name, now))
    connection.pragma("user_version", version + 1)


def _name_kinds(connection: Connection) -> None:
    known = {name for (name,) in connection.execute("SELECT name FROM kind")}
    for name in EVENTS:
        if name not in known:
            connection.execute("INSERT INTO kind (name) VALUES (?)", (name,))
