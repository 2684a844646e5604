"""Opening a database: new, old, foreign, locked, out of reach, or by many at once."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import anyio
import apsw
import pytest

from perdure.errors import (
    PerdureError,
    StoreDamaged,
    StoreError,
    StoreLocked,
    StoreReadOnly,
    StoreTooNew,
)
from perdure.store import database, schema
from perdure.store.database import Connection
from perdure.store.sqlite import SQLiteStore, open_sqlite
from tests.store.store_support import CREATED, SetClock, raw, unprivileged_directory, worker

pytestmark = pytest.mark.anyio


async def refused(path: Path, busy_timeout: float = 0.05) -> PerdureError:
    """Return why a path is refused: one line that names it."""
    with pytest.raises(PerdureError) as caught:
        await open_sqlite(path, clock=SetClock(), busy_timeout=busy_timeout)
    message = str(caught.value)
    assert path.name in message
    assert "\n" not in message
    return caught.value


async def make(path: Path) -> None:
    async with await open_sqlite(path, clock=SetClock()) as store:
        await store.create("s1", [CREATED])


async def test_a_new_store_and_its_directory_are_for_their_user_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "store.db"
    async with await open_sqlite(path, clock=SetClock()) as store:
        await store.create("s1", [CREATED])
        for file in path.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [file.name for file in path.parent.iterdir()] == ["store.db"]


async def test_the_file_says_whose_it_is_and_how_it_came_to_be(path: Path) -> None:
    await make(path)
    with raw(path) as connection:
        assert connection.pragma("application_id") == schema.APPLICATION_ID
        assert connection.pragma("page_size") == schema.PAGE_SIZE
        ledger = [version for (version,) in connection.execute("SELECT version FROM migration")]
        assert ledger == list(range(1, connection.pragma("user_version") + 1))


async def test_a_closed_store_refuses_and_may_be_closed_again(store: SQLiteStore) -> None:
    await store.create("s1", [CREATED])
    await store.close()
    await store.close()
    for call in (store.append("s1", []), store.events("s1"), store.session("s1")):
        with pytest.raises(StoreError, match="is closed; open it again"):
            await call


async def test_a_directory_is_no_store(tmp_path: Path) -> None:
    assert "is a directory" in str(await refused(tmp_path))


async def test_a_socket_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        assert "is a special file" in str(await refused(tmp_path / "socket"))


async def test_a_path_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    error = await refused(tmp_path / "file" / "store.db")
    assert "choose another file" in str(error)


async def test_a_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be a file name"):
        await open_sqlite(f"{tmp_path}/a\0b", clock=SetClock())
    await refused(tmp_path / ("x" * 300))


async def test_a_text_file_is_left_as_it_is(path: Path) -> None:
    path.write_text("Dear diary, " * 100)
    error = await refused(path)
    assert "not a database of Perdure" in str(error)
    assert path.read_text() == "Dear diary, " * 100


@pytest.mark.parametrize("statement", ["CREATE TABLE t (x)", "PRAGMA application_id = 7"])
async def test_the_database_of_another_program_is_left_as_it_is(path: Path, statement: str) -> None:
    with raw(path) as connection:
        connection.execute(statement)
    before = path.read_bytes()
    assert "another program made it" in str(await refused(path))
    assert path.read_bytes() == before


async def test_a_newer_schema_is_refused_with_both_versions(path: Path) -> None:
    await make(path)
    with raw(path) as connection:
        connection.pragma("user_version", 99)
    error = await refused(path)
    assert isinstance(error, StoreTooNew)
    assert "schema version 99" in str(error)
    assert f"versions up to {len(schema.MIGRATIONS)}" in str(error)


async def test_a_damaged_file_is_refused(path: Path) -> None:
    await make(path)
    with path.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff" * 400)
    assert isinstance(await refused(path), StoreDamaged)


async def test_a_file_that_was_cut_short_is_refused(path: Path) -> None:
    await make(path)
    os.truncate(path, schema.PAGE_SIZE)
    assert isinstance(await refused(path), StoreDamaged)


async def test_a_database_that_is_held_for_too_long_is_refused(path: Path) -> None:
    await make(path)
    with raw(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert isinstance(await refused(path), StoreLocked)
        connection.execute("ROLLBACK")
    await make_second(path)


async def make_second(path: Path) -> None:
    async with await open_sqlite(path, clock=SetClock()) as store:
        await store.create("s2", [CREATED])


async def test_a_write_waits_for_another_process_only_so_long(path: Path) -> None:
    async with await open_sqlite(path, clock=SetClock(), busy_timeout=0.05) as store:
        with raw(path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreLocked, match="let it finish"):
                await store.create("s1", [CREATED])
            connection.execute("ROLLBACK")
        await store.create("s1", [CREATED])


async def test_a_write_finds_a_lock_that_another_process_leaves_only_for_moments(
    store: SQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 500:
                other.execute("COMMIT")

        monkeypatch.setattr(database.time, "sleep", pause)
        await store.create("s1", [CREATED])
    # SQLite's own pauses would grow to a tenth of a second, and miss the moments one by one.
    assert max(pauses) <= 0.002


async def test_a_database_that_cannot_be_written_is_refused() -> None:
    with unprivileged_directory() as directory:
        path = directory / "store.db"
        await make(path)
        path.chmod(0o400)
        assert isinstance(await refused(path), StoreReadOnly)


async def test_a_directory_that_cannot_be_written_is_refused() -> None:
    with unprivileged_directory() as directory:
        path = directory / "store.db"
        await make(path)
        directory.chmod(0o500)
        assert isinstance(await refused(path), StoreReadOnly)
        assert isinstance(await refused(directory / "other.db"), StoreReadOnly)


async def test_a_database_that_cannot_be_read_is_refused() -> None:
    with unprivileged_directory() as directory:
        path = directory / "store.db"
        await make(path)
        path.chmod(0)
        assert isinstance(await refused(path), StoreReadOnly)


async def test_a_refused_opening_leaves_no_thread_behind(tmp_path: Path) -> None:
    import threading

    before = threading.active_count()
    await refused(tmp_path)
    (tmp_path / "text").write_text("no database at all" * 50)
    await refused(tmp_path / "text")
    assert "perdure-store-writer" not in {thread.name for thread in threading.enumerate()}
    assert threading.active_count() <= before + 1


async def test_many_stores_of_one_process_can_create_the_same_file(path: Path) -> None:
    async def create(name: str) -> None:
        # Longer than usual: on a busy disk six of them may wait for each other's syncs.
        async with await open_sqlite(path, clock=SetClock(), busy_timeout=60.0) as store:
            await store.create(name, [CREATED])

    async with anyio.create_task_group() as tasks:
        for name in "abcdef":
            tasks.start_soon(create, name)
    async with await open_sqlite(path, clock=SetClock()) as store:
        assert {row.id for row in await store.sessions()} == set("abcdef")
        assert await store.check() == []


async def test_many_processes_can_create_the_same_file(path: Path) -> None:
    with worker("create", path) as one, worker("create", path) as two, worker("create", path) as t:
        workers = (one, two, t)
        assert [each.read() for each in workers] == ["ready"] * 3
        for name, each in zip("abc", workers, strict=True):
            each.say(name)
        assert [each.read() for each in workers] == ["created"] * 3
    async with await open_sqlite(path, clock=SetClock()) as store:
        assert {row.id for row in await store.sessions()} == set("abc")
        assert await store.check() == []


async def test_a_new_store_waits_for_another_that_is_being_made_in_the_same_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")

        def finish(_seconds: float) -> None:
            other.execute("COMMIT")

        # SQLite waits for nobody in this place, so whoever is refused must come again.
        monkeypatch.setattr(database.time, "sleep", finish)
        await make(path)
        assert not other.in_transaction


async def test_one_that_is_never_made_is_waited_for_no_longer_than_was_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.touch()
    waits: list[float] = []
    with raw(path) as other:
        other.execute("BEGIN IMMEDIATE")

        def lock_out(seconds: float) -> None:
            if not waits:
                # From now on nobody may read either, and there SQLite would wait by itself.
                other.execute("COMMIT; BEGIN EXCLUSIVE")
            waits.append(seconds)

        monkeypatch.setattr(database.time, "sleep", lock_out)
        assert isinstance(await refused(path, busy_timeout=0.05), StoreLocked)
    assert sum(waits) == pytest.approx(0.05)


def add_table(connection: Connection) -> None:
    connection.execute("CREATE TABLE extra (x)")


def add_column(connection: Connection) -> None:
    connection.execute("ALTER TABLE extra ADD COLUMN y")


async def test_an_old_database_is_brought_forward_in_order(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make(path)
    later = (*schema.MIGRATIONS, ("a table", add_table), ("a column", add_column))
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    async with await open_sqlite(path, clock=SetClock()) as store:
        assert await store.version("s1") == 1
    with raw(path) as connection:
        connection.execute("SELECT x, y FROM extra")
        names = [name for (name,) in connection.execute("SELECT name FROM migration").fetchall()]
        assert names == [name for name, _ in later]


async def test_a_migration_that_was_interrupted_is_done_again_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(connection: Connection) -> None:
        add_column(connection)
        raise apsw.InterruptError("killed here")

    await make(path)
    first = (*schema.MIGRATIONS, ("a table", add_table))
    monkeypatch.setattr(schema, "MIGRATIONS", (*first, ("a column", interrupted)))
    await refused(path)
    with raw(path) as connection:
        assert connection.pragma("user_version") == len(first)
    monkeypatch.setattr(schema, "MIGRATIONS", (*first, ("a column", add_column)))
    async with await open_sqlite(path, clock=SetClock()) as store:
        assert await store.version("s1") == 1
