"""Disks that fail, fill up or lose the file: nothing acknowledged is lost, and it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from pathlib import Path

import anyio
import apsw
import pytest

from perdure.errors import StoreError, StoreFull
from perdure.history import events as ev
from perdure.store.contract import Guard
from perdure.store.schema import PAGE_SIZE
from perdure.store.sqlite import SQLiteStore, open_sqlite
from tests.store.busy_run import BusyRun, faults_after
from tests.store.faulty_vfs import CHANGES, EVERYTHING, FAULTS, Plan, faulty_vfs
from tests.store.store_support import CREATED, SetClock, raw, worker

pytestmark = pytest.mark.anyio


@pytest.fixture
def plan() -> Generator[Plan]:
    with faulty_vfs() as made:
        yield made


async def append(store: SQLiteStore, words: Iterable[str], acknowledged: list[str]) -> int:
    """Append notes one by one; return how many failed, each with a typed error."""
    failed = 0
    for word in words:
        try:
            await store.append("s1", [ev.Note(word)])
            acknowledged.append(word)
        except StoreError:
            failed += 1
    return failed


async def texts(path: Path) -> list[str]:
    """Open the file anew, see that it is sound, and return the notes in it."""
    async with await open_sqlite(path, clock=SetClock()) as store:
        assert await store.check() == []
        return [r.data.text for r in await store.events("s1") if isinstance(r.data, ev.Note)]


async def test_writes_that_wait_together_share_one_sync(path: Path, plan: Plan) -> None:
    async with await open_sqlite(path, clock=SetClock(), vfs=plan.name, busy_timeout=60.0) as store:
        await store.create("s1", [CREATED])
        before = plan.syncs
        with raw(path) as other:
            other.execute("BEGIN IMMEDIATE")
            async with asyncio.TaskGroup() as tasks:
                for _ in range(200):
                    tasks.create_task(store.append("s1", [ev.Note("x")]))
                await asyncio.sleep(0)  # now each of them waits for the other process
                other.execute("COMMIT")
        assert plan.syncs - before <= 3


async def test_every_write_is_synced_before_it_is_acknowledged(path: Path, plan: Plan) -> None:
    async with await open_sqlite(path, clock=SetClock(), vfs=plan.name) as store:
        await store.create("s1", [CREATED])
        for _ in range(3):
            before = plan.syncs
            await store.append("s1", [ev.Note("x")])
            assert plan.syncs == before + 1


async def run_with(path: Path, prepare: Callable[[Plan], None]) -> tuple[BusyRun, int]:
    """Do one run on a file system that was prepared; return it, with the number of operations."""
    with faulty_vfs() as plan:
        prepare(plan)
        run = BusyRun(path, plan.name)
        await run.work()
        return run, plan.count


async def assert_kept(path: Path, run: BusyRun, where: str) -> None:
    """Assert that what was acknowledged is there and that nothing is there by halves."""
    acknowledged = {
        write.prompt for writes in run.writes.values() for write in writes if write.acknowledged
    }
    assert await faults_after(path, run.created, run.writes, acknowledged) == [], where


def fault(kind: str, code: int | None) -> int:
    return FAULTS[kind] if code is None else code


@pytest.mark.parametrize(
    ("counted", "code"),
    [(EVERYTHING, None), (CHANGES, apsw.SQLITE_FULL)],
    ids=["error", "full"],
)
@pytest.mark.usefixtures("early_checkpoints")
async def test_one_fault_at_any_operation_costs_one_call_and_nothing_acknowledged(
    tmp_path: Path, counted: frozenset[str], code: int | None
) -> None:
    def failing_at(number: int) -> Callable[[Plan], None]:
        def prepare(plan: Plan) -> None:
            plan.counted = counted
            plan.fails = lambda kind, count: fault(kind, code) if count == number else 0

        return prepare

    _, operations = await run_with(tmp_path / "whole.db", failing_at(0))
    for number in range(1, operations + 1):
        path = tmp_path / f"{number}.db"
        run, _ = await run_with(path, failing_at(number))
        assert run.failed <= 1, f"a fault at operation {number} cost {run.failed} calls"
        await assert_kept(path, run, f"a fault at operation {number}")


@pytest.mark.parametrize(
    ("counted", "code"),
    [(EVERYTHING, None), ({"read", "size"}, None), (CHANGES, apsw.SQLITE_FULL)],
    ids=["error", "reads", "full"],
)
@pytest.mark.usefixtures("early_checkpoints")
async def test_a_disk_that_fails_for_good_loses_nothing_acknowledged(
    tmp_path: Path, counted: frozenset[str], code: int | None
) -> None:
    def failing_from(number: int) -> Callable[[Plan], None]:
        def prepare(plan: Plan) -> None:
            plan.counted = counted
            plan.fails = lambda kind, count: fault(kind, code) if count >= number else 0

        return prepare

    _, operations = await run_with(tmp_path / "whole.db", failing_from(10**9))
    for number in range(1, operations + 1):
        path = tmp_path / f"{number}.db"
        run, _ = await run_with(path, failing_from(number))
        await assert_kept(path, run, f"faults from operation {number} on")


async def test_the_log_beside_the_file_does_not_grow_without_end(path: Path) -> None:
    async with await open_sqlite(path, clock=SetClock()) as store:
        await store.create("s1", [CREATED])
        for _ in range(60):
            await store.append("s1", [ev.Note("x" * 200_000)])
        assert path.with_name(path.name + "-wal").stat().st_size < 6 * 1024 * 1024


async def test_after_a_failed_sync_the_write_is_not_acknowledged_and_the_next_one_is(
    path: Path, plan: Plan
) -> None:
    acknowledged: list[str] = []
    async with await open_sqlite(path, clock=SetClock(), vfs=plan.name) as store:
        await store.create("s1", [CREATED])
        plan.fails = lambda operation, _: apsw.SQLITE_IOERR_FSYNC if operation == "sync" else 0
        with pytest.raises(StoreError, match="this write may be missing"):
            await store.append("s1", [ev.Note("lost")])
        assert await append(store, ["lost too"], acknowledged) == 1
        plan.fails = lambda _operation, _number: 0
        assert await append(store, ["kept"], acknowledged) == 0
    assert (await texts(path))[-1] == "kept"


async def test_after_a_failed_sync_the_database_is_opened_anew_and_its_log_begins_afresh(
    path: Path, plan: Plan
) -> None:
    async with await open_sqlite(path, clock=SetClock(), vfs=plan.name) as store:
        await store.create("s1", [CREATED])
        opened = plan.databases
        plan.fails = lambda operation, _: apsw.SQLITE_IOERR_FSYNC if operation == "sync" else 0
        with pytest.raises(StoreError):
            await store.append("s1", [ev.Note("x")])
        plan.fails = lambda _operation, _number: 0
        await store.append("s1", [ev.Note("y")])
        assert plan.databases == opened + 1
        assert path.with_name(path.name + "-wal").stat().st_size < 8 * PAGE_SIZE


async def test_a_lease_outlives_a_failed_write(path: Path, plan: Plan) -> None:
    async with await open_sqlite(path, clock=SetClock(), vfs=plan.name) as store:
        await store.create("s1", [CREATED])
        lease = await store.claim("s1", "one")
        plan.fails = lambda _operation, _number: apsw.SQLITE_IOERR_WRITE
        with pytest.raises(StoreError):
            await store.append("s1", [ev.Note("x")])
        plan.fails = lambda _operation, _number: 0
        assert lease is not None
        await store.append("s1", [ev.Note("y")], guard=Guard(token=lease.token), release=lease)
        assert await store.claim("s1", "two") is not None


async def test_a_claim_that_could_not_be_stored_is_nobodys(path: Path, plan: Plan) -> None:
    async with await open_sqlite(path, clock=SetClock(), vfs=plan.name) as store:
        await store.create("s1", [CREATED])
        plan.fails = lambda _operation, _number: apsw.SQLITE_FULL
        with pytest.raises(StoreFull):
            await store.claim("s1", "one")
        plan.fails = lambda _operation, _number: 0
        lease = await store.claim("s1", "two")
        assert lease is not None
        assert lease.token == 1


async def test_a_full_disk_refuses_writes_until_there_is_space(path: Path, plan: Plan) -> None:
    acknowledged: list[str] = []
    async with await open_sqlite(path, clock=SetClock(), vfs=plan.name) as store:
        await store.create("s1", [CREATED])
        await append(store, ["a"], acknowledged)
        plan.fails = lambda _operation, _number: apsw.SQLITE_FULL
        with pytest.raises(StoreFull, match="free some space"):
            await store.append("s1", [ev.Note("b")])
        assert len(await store.events("s1")) == 2
        plan.fails = lambda _operation, _number: 0
        await append(store, ["c"], acknowledged)
    assert await texts(path) == ["a", "c"] == acknowledged


async def test_a_file_that_may_not_grow_refuses_writes_until_it_may(path: Path) -> None:
    async with await open_sqlite(path, clock=SetClock()) as store:
        await store.create("s1", [CREATED])
    with worker("fill", path, "s1") as filler:
        kind, counts, after = filler.read(), filler.read(), filler.read()
    appended, version = map(int, counts.split())
    assert kind == "StoreFull"
    assert 0 < appended < 200
    assert version == appended + 1
    assert int(after) == version + 1


async def test_a_removed_database_refuses_writes(path: Path) -> None:
    async with await open_sqlite(path, clock=SetClock()) as store:
        await store.create("s1", [CREATED])
        path.unlink()
        for _ in range(2):
            with pytest.raises(StoreError, match="was removed or replaced while it was open"):
                await store.append("s1", [ev.Note("x")])


async def test_a_replaced_database_refuses_writes_until_it_is_back(
    path: Path, tmp_path: Path
) -> None:
    async with await open_sqlite(path, clock=SetClock()) as store:
        await store.create("s1", [CREATED])
        path.rename(tmp_path / "aside")
        path.write_bytes((tmp_path / "aside").read_bytes())
        with pytest.raises(StoreError, match="was removed or replaced"):
            await store.append("s1", [ev.Note("x")])
        (tmp_path / "aside").rename(path)
        await store.append("s1", [ev.Note("y")])


async def test_a_removed_log_file_refuses_writes(path: Path) -> None:
    async with await open_sqlite(path, clock=SetClock()) as store:
        await store.create("s1", [CREATED])
        path.with_name(path.name + "-wal").unlink()
        with pytest.raises(StoreError, match="was removed or replaced"):
            await store.append("s1", [ev.Note("x")])


async def test_a_closing_store_whose_disk_fails_still_closes(path: Path, plan: Plan) -> None:
    store = await open_sqlite(path, clock=SetClock(), vfs=plan.name)
    await store.create("s1", [CREATED])
    await store.claim("s1", "one")
    plan.fails = lambda _operation, _number: apsw.SQLITE_IOERR
    with anyio.fail_after(60):
        await store.close()
