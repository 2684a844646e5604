"""Rows that are not what was written: each blocks its own session, and is mended or named."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from perdure.context.snapshot import SourceSnapshot
from perdure.errors import SessionNotFound, StoreDamaged
from perdure.history import events as ev
from perdure.store.contract import PromptRow
from perdure.store.schema import SEQ_BITS
from perdure.store.sqlite import SQLiteStore, open_sqlite
from tests.store.store_support import CREATED, SetClock, admitted, raw, worker

pytestmark = pytest.mark.anyio

P9 = "json_object('prompt', 'p9')"
PROMOTED = "(SELECT number FROM kind WHERE name = 'prompt.promoted')"
NOT_UTF8 = "CAST(x'73ff' AS TEXT)"


async def fill(store: SQLiteStore) -> None:
    """Begin two sessions, each with a prompt and a Snapshot."""
    for number in (1, 2):
        told = ev.SystemMessage("told", {"test/a": SourceSnapshot("1")})
        await store.create(f"s{number}", [CREATED, admitted(f"p{number}"), told, ev.Note("four")])


def damage(path: Path, statement: str) -> None:
    with raw(path) as connection:
        connection.execute(statement, {"s1": 1 << SEQ_BITS} if ":s1" in statement else None)


async def assert_the_other_goes_on(store: SQLiteStore) -> None:
    """Assert that the second session is listed, found, read, drained and written."""
    assert len(await store.sessions()) == 2
    assert await store.resolve("s2") == "s2"
    assert (await store.session("s2")).id == "s2"
    assert await store.prompt("p2") == PromptRow("p2", "s2", 2, "pending")
    lease = await store.claim("s2", "me")
    assert lease is not None
    await store.append("s2", [ev.Note("still works")], release=lease)
    assert len(await store.events("s2")) == 5


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        (f"UPDATE session SET title = {NOT_UTF8} WHERE id = 's1'", "session s1: its row has title"),
        (f"UPDATE session SET model = {NOT_UTF8} WHERE id = 's1'", "session s1: its row has model"),
        ("UPDATE session SET updated = 0 WHERE id = 's1'", "session s1: its row has updated 0"),
        ("UPDATE session SET control_seq = 9 WHERE id = 's1'", "session s1: its row has control"),
        (f"UPDATE prompt SET state = {NOT_UTF8} WHERE id = 'p1'", "prompt p1 is not pending"),
        ("UPDATE prompt SET session = 2 WHERE id = 'p1'", "prompt p1 is not pending"),
        ("UPDATE prompt SET session = 7 WHERE id = 'p1'", "prompt p1 is not pending"),
        (f"UPDATE prompt SET id = {NOT_UTF8} WHERE id = 'p1'", "prompt p1 is not pending"),
        (f"UPDATE snapshot SET entry = {NOT_UTF8} WHERE session = 1", "its Context Snapshot"),
        (f"UPDATE snapshot SET key = {NOT_UTF8} WHERE session = 1", "its Context Snapshot"),
        ("UPDATE session SET owner = 'me', holder = 7 WHERE id = 's1'", "1 leases belong to no"),
    ],
)
async def test_a_damaged_row_blocks_nobody_else_and_is_mended_from_the_log(
    store: SQLiteStore, path: Path, statement: str, words: str
) -> None:
    await fill(store)
    before = (await store.session("s1"), await store.prompt("p1"), await store.snapshot("s1"))
    damage(path, statement)
    await assert_the_other_goes_on(store)
    assert any(words in line for line in await store.check())
    assert await store.rebuild() != []
    assert await store.check() == []
    after = (await store.session("s1"), await store.prompt("p1"), await store.snapshot("s1"))
    assert after == before


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE event SET data = '{' WHERE place = :s1 + 2", "event 2 of session s1 is damaged"),
        (
            f"UPDATE event SET kind = {PROMOTED} WHERE place = :s1 + 3",
            "event 3 of session s1 is damaged",
        ),
        (
            f"UPDATE event SET data = {P9}, kind = {PROMOTED} WHERE place = :s1 + 4",
            "the log of session s1 makes no sense (session s1: event 4 is about prompt p9",
        ),
        (
            "INSERT INTO event VALUES (:s1 + 5, 1, 0, 'garbage')",
            "event 5 of session s1 is damaged",
        ),
        (
            "INSERT INTO event VALUES (:s1 + 9, 1, 0, 'garbage')",
            "event 5 of session s1 is missing",
        ),
        ("DELETE FROM event WHERE place < :s1 + 9", "event 1 of session s1 is missing"),
    ],
)
async def test_a_damaged_log_is_named_and_never_cut(
    store: SQLiteStore, path: Path, statement: str, words: str
) -> None:
    def events() -> list[object]:
        with raw(path) as connection:
            return connection.execute("SELECT * FROM event").fetchall()

    await fill(store)
    damage(path, statement)
    await assert_the_other_goes_on(store)
    before = events()
    await store.rebuild()
    assert events() == before
    found = await store.check()
    assert [line for line in found if words in line] == found
    assert all("perdure sessions delete s1" in line for line in found)


async def test_nothing_is_appended_behind_a_log_that_has_lost_its_end(
    store: SQLiteStore, path: Path
) -> None:
    await fill(store)
    damage(path, "DELETE FROM event WHERE place = :s1 + 4")
    with pytest.raises(StoreDamaged, match="event 4 of session s1 is missing"):
        await store.append("s1", [admitted("p3")])
    assert await store.prompt("p3") is None
    await store.rebuild()
    assert [record.seq for record in await store.append("s1", [admitted("p3")])] == [4]
    assert await store.check() == []


async def test_a_session_whose_log_is_damaged_can_be_removed(
    store: SQLiteStore, path: Path
) -> None:
    await fill(store)
    damage(path, "UPDATE event SET data = '{' WHERE place = :s1 + 2")
    with pytest.raises(StoreDamaged, match="event 2 of session s1"):
        await store.rebuild("s1")
    await store.delete("s1")
    assert await store.check() == []


async def test_a_session_whose_id_is_damaged_blocks_no_other(
    store: SQLiteStore, path: Path
) -> None:
    await fill(store)
    damage(path, f"UPDATE session SET id = {NOT_UTF8} WHERE id = 's1'")
    await assert_the_other_goes_on(store)
    assert {row.id for row in await store.sessions()} == {"s\ufffd", "s2"}
    assert await store.rebuild() == []


async def test_a_damaged_holder_keeps_nobody_from_claiming(store: SQLiteStore, path: Path) -> None:
    await fill(store)
    with worker("hold", path, "s1") as holder:
        assert holder.read() == "1"
        damage(path, f"UPDATE holder SET host = {NOT_UTF8}")
        await assert_the_other_goes_on(store)
        assert await store.claim("s1", "two") is None


async def test_what_dead_processes_left_is_cleared_away_but_for_the_marks_of_a_crash(
    store: SQLiteStore, path: Path
) -> None:
    def holders() -> list[tuple[int]]:
        with raw(path) as connection:
            return connection.execute("SELECT pid FROM holder ORDER BY pid").fetchall()

    await fill(store)
    for session in ("s1", "s2"):
        with worker("hold", path, session) as holder:
            assert holder.read() == "1"
    with raw(path) as connection:
        connection.execute("UPDATE session SET owner = '', holder = NULL WHERE id = 's2'")
    assert len(holders()) == 2
    assert await store.check() == []
    assert await store.rebuild() == ["1 processes that have ended were still listed"]
    assert len(holders()) == 1
    assert (await store.session("s1")).crashed
    assert os.getpid() not in {pid for (pid,) in holders()}


async def test_a_damaged_index_is_written_anew(store: SQLiteStore, path: Path) -> None:
    index = "sqlite_autoindex_session_1"
    await fill(store)
    await store.close()
    with raw(path) as connection:
        page = connection.execute("SELECT pageno FROM dbstat WHERE name = ?", (index,)).get
        size = connection.pragma("page_size")
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        content = file.read(size)
        file.seek((page - 1) * size)
        file.write(content.replace(b"s1", b"s0"))
    async with await open_sqlite(path, clock=SetClock()) as again:
        await assert_the_other_goes_on(again)
        with pytest.raises(SessionNotFound):
            await again.session("s1")
        assert any(index in line for line in await again.check())
        assert any(index in line for line in await again.rebuild())
        assert await again.check() == []
        assert (await again.session("s1")).last_seq == 4
