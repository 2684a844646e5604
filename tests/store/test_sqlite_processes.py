"""Processes that are killed, and processes that write at the same time."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from perdure.history import events as ev
from perdure.store.sqlite import open_sqlite
from tests.store.store_support import CREATED, SetClock, worker

pytestmark = pytest.mark.anyio


async def create(path: Path, session: str = "s1") -> None:
    async with await open_sqlite(path, clock=SetClock()) as store:
        await store.create(session, [CREATED])


@pytest.mark.parametrize("seed", range(4))
async def test_a_killed_process_loses_nothing_that_it_acknowledged(path: Path, seed: int) -> None:
    await create(path)
    lines = random.Random(seed).randrange(1, 400)
    with worker("admit", path, "s1") as admitting:
        acknowledged = [admitting.read() for _ in range(lines)]
        admitting.kill()
        admitting.wait()
        acknowledged += [line for line in admitting.rest() if line]
    async with await open_sqlite(path, clock=SetClock()) as store:
        assert await store.check() == []
        records = await store.events("s1")
        stored = {r.data.prompt for r in records if isinstance(r.data, ev.PromptAdmitted)}
        # The last line may be cut short, wherever the kill found it.
        assert set(acknowledged[:-1]) <= stored
        assert [r.seq for r in records] == list(range(1, len(records) + 1))
        await store.append("s1", [ev.Note("it goes on")])


async def test_a_program_that_forgets_to_close_ends_nevertheless(path: Path) -> None:
    await create(path)
    with worker("forget", path, "s1") as forgetful:
        assert forgetful.read() == "appended"
        assert forgetful.wait() == 0
    async with await open_sqlite(path, clock=SetClock()) as store:
        assert await store.version("s1") == 2
        assert await store.claim("s1", "another") is not None


async def test_processes_that_write_one_session_leave_no_gap(path: Path) -> None:
    await create(path)
    async with await open_sqlite(path, clock=SetClock()) as store:
        with worker("notes", path, "s1", 60) as one, worker("notes", path, "s1", 60) as two:
            mine: list[int | None] = []
            for number in range(60):
                (record,) = await store.append("s1", [ev.Note(f"mine {number}")])
                mine.append(record.seq)
            theirs = [int(line) for line in one.rest() + two.rest()]
        assert sorted([seq or 0 for seq in mine] + theirs) == list(range(2, 182))
        assert await store.version("s1") == 181
        assert await store.check() == []


def kill_in_restore(path: Path, session: str) -> bool:
    """Kill a process that restores a session; tell whether that was before it had done so."""
    log = path.with_name(path.name + "-wal")
    with worker("restore", path, session, 30_000, "x") as restoring:
        assert restoring.read() == "ready"
        before, end = log.stat().st_size, time.monotonic() + 60
        restoring.say()
        # What is not committed yet goes into the log beside the database once it is too much for
        # the memory that is given to it.
        while log.stat().st_size < before + 1024 * 1024:
            assert time.monotonic() < end
        restoring.kill()
        restoring.wait()
        return restoring.rest() == []


async def test_a_process_killed_in_the_middle_of_a_restore_leaves_nothing_of_it(path: Path) -> None:
    # On a busy machine the kill may come too late; five times in a row it does not.
    for attempt in range(5):
        await create(path, f"other {attempt}")
        if kill_in_restore(path, f"s{attempt}"):
            break
    else:
        pytest.fail("it was never killed in the middle")
    async with await open_sqlite(path, clock=SetClock()) as store:
        ids = {row.id for row in await store.sessions()}
        assert f"s{attempt}" not in ids
        assert f"other {attempt}" in ids
        assert await store.check() == []
        await store.restore(f"s{attempt}", [ev.Record(1, 5, CREATED)])


async def test_of_two_processes_that_restore_one_id_one_does(path: Path) -> None:
    await create(path)
    with (
        worker("restore", path, "big", 50, "a") as one,
        worker("restore", path, "big", 50, "b") as two,
    ):
        assert [each.read() for each in (one, two)] == ["ready"] * 2
        for each in (one, two):
            each.say()
        assert sorted(each.read() for each in (one, two)) == ["ConcurrencyError", "restored"]
    async with await open_sqlite(path, clock=SetClock()) as store:
        notes = {r.data.text for r in await store.events("big") if isinstance(r.data, ev.Note)}
        assert len(notes) == 1
        assert await store.check() == []
