"""Leases between processes: who is alive, who is gone, and who only seems so."""

from __future__ import annotations

import os
import signal
import time
from datetime import timedelta
from pathlib import Path

import anyio
import pytest

from perdure.clock import SystemClock
from perdure.errors import LeaseLost
from perdure.history import events as ev
from perdure.store import schema
from perdure.store.contract import Guard, Lease
from perdure.store.database import Database
from perdure.store.lease import Holder
from perdure.store.sqlite import SQLiteStore, open_sqlite
from tests.store.store_support import CREATED, SetClock, raw, worker

pytestmark = pytest.mark.anyio


def beat(path: Path) -> int:
    with raw(path) as connection:
        return connection.execute("SELECT beat FROM holder").get


def make_foreign(path: Path) -> None:
    """Let all holders seem to live on another host, where no process can be seen."""
    with raw(path) as connection:
        connection.execute("UPDATE holder SET host = 'elsewhere'")


async def claimed(store: SQLiteStore, session: str = "s1", owner: str = "one") -> Lease:
    lease = await store.claim(session, owner)
    assert lease is not None
    return lease


async def test_the_session_of_a_killed_process_is_free_at_once(
    store: SQLiteStore, path: Path
) -> None:
    await store.create("s1", [CREATED])
    with worker("hold", path, "s1") as holder:
        assert holder.read() == "1"
        assert await store.claim("s1", "two") is None
        assert (await store.session("s1")).owner == "worker"
        holder.kill()
        holder.wait()
        assert (await store.session("s1")).owner == ""
        assert (await claimed(store, owner="two")).token == 2


async def test_a_session_that_is_drained_names_the_process_that_keeps_it_from_being_deleted(
    store: SQLiteStore, path: Path
) -> None:
    await store.create("s1", [CREATED])
    with worker("hold", path, "s1") as holder:
        assert holder.read() == "1"
        with pytest.raises(LeaseLost, match=f"is being run by process {holder.pid}; interrupt it"):
            await store.delete("s1")


async def test_a_drain_that_ended_with_its_process_is_known_to_have_crashed(
    store: SQLiteStore, path: Path
) -> None:
    async def is_crashed() -> bool:
        row = await store.session("s1")
        assert [row] == [each for each in await store.sessions() if each.id == "s1"]
        return row.crashed

    await store.create("s1", [CREATED])
    assert not await is_crashed()
    with worker("hold", path, "s1") as holder:
        assert holder.read() == "1"
        assert not await is_crashed()
        holder.kill()
        holder.wait()
        assert await is_crashed()
    lease = await claimed(store)
    assert not await is_crashed()
    await store.release(lease)
    assert not await is_crashed()


async def test_a_crash_is_remembered_when_the_database_is_opened_again(
    path: Path, clock: SetClock
) -> None:
    async with await open_sqlite(path, clock=clock) as store:
        for session in ("s1", "s2"):
            await store.create(session, [CREATED])
        with worker("hold", path, "s1") as holder:
            assert holder.read() == "1"
    async with await open_sqlite(path, clock=clock) as store:
        await store.release(await claimed(store, "s2"))
        assert (await store.session("s1")).crashed
        assert not (await store.session("s2")).crashed


async def test_a_process_that_gave_its_lease_up_did_not_crash(
    store: SQLiteStore, path: Path
) -> None:
    await store.create("s1", [CREATED])
    with worker("hold", path, "s1") as holder:
        assert holder.read() == "1"
        holder.close()
        assert holder.wait() == 0
    row = await store.session("s1")
    assert (row.crashed, row.owner, row.token) == (False, "", 1)


async def test_a_killed_process_that_nobody_reaped_is_gone_too(
    store: SQLiteStore, path: Path
) -> None:
    await store.create("s1", [CREATED])
    with worker("hold", path, "s1") as holder:
        assert holder.read() == "1"
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        await store.delete("s1")


async def test_another_process_with_the_same_number_is_not_the_owner(
    path: Path, clock: SetClock
) -> None:
    async with await open_sqlite(path, clock=clock) as one:
        await one.create("s1", [CREATED])
        with worker("hold", path, "s1") as holder:
            assert holder.read() == "1"
            with raw(path) as connection:
                connection.execute("UPDATE holder SET started = started - 1")
            assert await one.claim("s1", "two") is not None


async def test_closing_releases_what_is_held(path: Path, clock: SetClock) -> None:
    async with await open_sqlite(path, clock=clock) as one:
        await one.create("s1", [CREATED])
        await claimed(one)
    async with await open_sqlite(path, clock=clock) as two:
        assert (await two.session("s1")).owner == ""
        assert await two.claim("s1", "two") is not None
        with raw(path) as connection:
            assert connection.execute("SELECT count(*) FROM holder").get == 1


async def test_a_lease_that_nobody_renews_is_over_after_its_length(
    path: Path, clock: SetClock
) -> None:
    async with (
        await open_sqlite(path, clock=SetClock(), lease_seconds=600) as one,
        await open_sqlite(path, clock=clock, lease_seconds=1) as two,
    ):
        await one.create("s1", [CREATED])
        await claimed(one)
        make_foreign(path)
        assert await two.claim("s1", "two") is None
        clock.advance(599)
        assert await two.claim("s1", "two") is None
        clock.wall -= timedelta(days=1)
        clock.advance(1)
        assert (await claimed(two, owner="two")).token == 2


async def test_the_length_of_a_lease_is_counted_from_the_first_sight_of_it(
    path: Path, clock: SetClock
) -> None:
    async with (
        await open_sqlite(path, clock=SetClock(), lease_seconds=600) as one,
        await open_sqlite(path, clock=clock) as two,
    ):
        await one.create("s1", [CREATED])
        lease = await claimed(one)
        make_foreign(path)
        assert await two.claim("s1", "two") is None
        clock.advance(1000)
        await one.release(lease)
        await claimed(one)
        make_foreign(path)
        assert await two.claim("s1", "two") is None


async def test_a_lease_is_renewed_while_the_event_loop_is_busy(path: Path, clock: SetClock) -> None:
    async with (
        await open_sqlite(path, clock=SystemClock(), lease_seconds=0.06) as one,
        await open_sqlite(path, clock=clock) as two,
    ):
        await one.create("s1", [CREATED])
        await claimed(one)
        make_foreign(path)
        assert await two.claim("s1", "two") is None
        before, end = beat(path), time.monotonic() + 60
        while beat(path) == before and time.monotonic() < end:
            time.sleep(0.005)
        clock.advance(1000)
        assert await two.claim("s1", "two") is None


async def test_nothing_is_renewed_for_an_idle_store(path: Path) -> None:
    async with await open_sqlite(path, clock=SystemClock(), lease_seconds=0.03) as store:
        await store.create("s1", [CREATED])
        await store.release(await claimed(store))
        await store.append("s1", [], release=await claimed(store))
        before, end = beat(path), time.monotonic() + 0.15
        while time.monotonic() < end:
            await store.append("s1", [ev.Note("busy")])
        assert beat(path) == before


async def test_a_stopped_process_that_wakes_after_its_lease_commits_nothing(path: Path) -> None:
    async with await open_sqlite(path, clock=SystemClock()) as store:
        await store.create("s1", [CREATED])
        with worker("hold", path, "s1", "short") as holder:
            assert holder.read() == "1"
            holder.say()
            assert holder.read() == "appended"
            os.kill(holder.pid, signal.SIGSTOP)
            with anyio.fail_after(60):
                while (lease := await store.claim("s1", "two")) is None:
                    await anyio.sleep(0.02)
            os.kill(holder.pid, signal.SIGCONT)
            holder.say()
            assert holder.read() == "LeaseLost"
        assert lease.token == 2
        await store.append("s1", [ev.Note("mine")], guard=Guard(token=2))
        assert [r.data for r in await store.events("s1", after=2)] == [ev.Note("mine")]


async def test_rows_of_dead_processes_are_cleared_away(store: SQLiteStore, path: Path) -> None:
    await store.create("s1", [CREATED])
    await store.create("s2", [CREATED])
    for session in ("s1", "s2"):
        with worker("hold", path, session) as holder:
            assert holder.read() == "1"
    await claimed(store, "s1")
    await claimed(store, "s2")
    async with await open_sqlite(path, clock=SetClock()) as other:
        await other.create("s3", [CREATED])
        await claimed(other, "s3")
        with raw(path) as connection:
            pids = connection.execute("SELECT pid FROM holder").fetchall()
        assert pids == [(os.getpid(),)] * 2


def test_a_lease_that_was_rolled_back_is_not_renewed(path: Path, clock: SetClock) -> None:
    database = Database(path, busy_timeout=1)
    database.create()
    connection = database.connect()
    schema.prepare(connection, database, 0)
    connection.execute("INSERT INTO session (id, created, updated) VALUES ('s1', 0, 0)")
    holder = Holder(10.0, clock.monotonic)
    connection.execute("BEGIN IMMEDIATE")
    assert holder.claim(connection, "s1", "one") is not None
    assert holder.needed()
    connection.execute("ROLLBACK")
    holder.recall(connection)
    assert not holder.needed()
    assert holder.claim(connection, "s1", "two") == Lease("s1", "two", 1)
    holder.recall(connection)
    assert holder.needed()
    connection.close()
